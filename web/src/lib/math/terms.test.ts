import { describe, expect, it } from "vitest";
import type { Axis, Matrix, Operation, Step } from "../api/types";
import { ACTIVATIONS, erf, softened } from "./functions";
import { gridOf, type Grid } from "./grid";
import { apart, pixelOf, pooledRow, RULES, written, type Read } from "./terms";

const axis = (size: number, of: Axis["of"] = "dimensions"): Axis => ({ of, size, labels: null });
const matrix = (key: string, grid: Grid, extra: Partial<Matrix> = {}): Matrix => ({
  key, name: key, means: "", rows: axis(grid.rows), columns: axis(grid.columns), heads: 1, colour: "signed", site: key, kind: "site", ...extra,
});
function read(operation: Operation, operands: number[][][], result: number[][], extra: Partial<Step> = {}, more: Partial<Read> = {}): Read {
  const grids = operands.map((rows, n) => gridOf(`operand${n}`, rows));
  const made = gridOf("result", result);
  const step: Step = {
    id: "s", part: "p", short: "", title: "", formula: "", says: "", next: null, slip: null, departs: [], operation,
    operands: grids.map((grid) => matrix(grid.key, grid)), result: matrix("result", made),
    factor: null, epsilon: null, function: null, window: null, changed: null, code: { file: "", line: 1 }, ...extra,
  };
  return { step, operands: grids, result: made, ...more };
}
const cell = (row: number, column: number) => ({ row, column });

describe("a cell written out", () => {
  it("has a rule for every operation of the contract", () => {
    expect(Object.keys(RULES).sort()).toEqual(
      ["activation", "add", "choose", "concat", "join", "lookup", "mask", "norm", "patches", "pixels", "pool", "product", "rms", "scale", "softmax", "tokens"]);
  });
  it("of a product is row times column, term by term, plus the bias", () => {
    const w = written(read("product", [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[0.5, -0.5]]], [[19.5, 21.5], [43.5, 49.5]]), cell(1, 0));
    expect(w.terms).toEqual([{ k: 0, left: 3, right: 5, value: 15 }, { k: 1, left: 4, right: 7, value: 28 }]);
    expect(w.facts.map((f) => f.value)).toEqual([43, 0.5]);
    expect([w.total, w.shown, apart(w)]).toEqual([43.5, 43.5, 0]);
  });
  it("of a product without bias is the sum alone", () => {
    const w = written(read("product", [[[1, 2, 3]], [[1], [10], [100]]], [[321]]), cell(0, 0));
    expect([w.total, w.facts.length]).toEqual([321, 0]);
  });
  it("of a product too wide for the screen is computed from the whole row and column", () => {
    const r = read("product", [[[0, 0, 1]], [[5], [6], [7]]], [[7]]);
    const shown = { ...r, operands: [{ ...r.operands[0]!, c0: 2, values: new Float32Array([1]) }], row: r.operands[0]!, column: r.operands[1]! };
    expect(written(shown, cell(0, 0))).toMatchObject({ total: 7, shown: 7 });
  });
  it("of scaled scores is the score times the factor", () => {
    expect(written(read("scale", [[[4, 8]]], [[2, 4]], { factor: 0.5 }), cell(0, 1)).total).toBe(4);
  });
  it("of a sum adds all operands, a single row to every row", () => {
    const w = written(read("add", [[[1, 2], [3, 4]], [[10, 20]], [[100, 200], [300, 400]]], [[111, 222], [313, 424]]), cell(1, 1));
    expect(w.facts.map((f) => f.value)).toEqual([4, 20, 400]);
    expect(w.total).toBe(424);
  });
  it("of a mask keeps what may be looked at and else is -inf", () => {
    const r = read("mask", [[[1, 2]]], [[1, -Infinity]]);
    expect([written(r, cell(0, 0)).total, written(r, cell(0, 1)).total]).toEqual([1, -Infinity]);
    const withMask = read("mask", [[[1, 2]], [[1, 0]]], [[1, -Infinity]]);
    expect([written(withMask, cell(0, 0)).total, written(withMask, cell(0, 1)).total]).toEqual([1, -Infinity]);
  });
  it("of a softmax gives the lecture's look-ahead rows", () => {
    const rows = [[0.1, 0.6, -Infinity, -Infinity], [0.1, 0.3, 0.6, -Infinity], [0.1, 0.3, 0.3, 0.3]];
    const expected = [[0.3775, 0.6225, 0, 0], [0.2584, 0.3156, 0.426, 0], [0.2144, 0.2619, 0.2619, 0.2619]];
    rows.forEach((row, i) => row.forEach((_, j) =>
      expect(written(read("softmax", [rows], expected), cell(i, j)).total).toBeCloseTo(expected[i]![j]!, 4)));
  });
  it("of a softmax over nothing is zero, not NaN", () => {
    expect(written(read("softmax", [[[-Infinity, -Infinity]]], [[0, 0]]), cell(0, 0)).total).toBe(0);
  });
  it("of a norm goes by mean and variance of the row: (1, 2, 3, 6) has 3 and 3.5", () => {
    const w = written(read("norm", [[[1, 2, 3, 6]], [[2, 2, 2, 2]], [[1, 1, 1, 1]]], [[0, 0, 0, 0]], { epsilon: 0 }), cell(0, 3));
    expect(w.facts.slice(1, 3).map((f) => f.value)).toEqual([3, 3.5]);
    expect(w.total).toBeCloseTo((3 / Math.sqrt(3.5)) * 2 + 1, 12);
  });
  it("of an RMS norm takes no mean off: (3, 4) has mean square 12.5", () => {
    const w = written(read("rms", [[[3, 4]], [[1, 10]]], [[0, 0]], { epsilon: 0 }), cell(0, 1));
    expect(w.facts[1]!.value).toBe(12.5);
    expect(w.total).toBeCloseTo((4 / Math.sqrt(12.5)) * 10, 12);
  });
  it("of an activation is f of the cell, times the gate where there is one", () => {
    expect(written(read("activation", [[[-2, 3]]], [[0, 3]], { function: "relu" }), cell(0, 1)).total).toBe(3);
    expect(written(read("activation", [[[2]], [[5]]], [[10]], { function: "relu" }), cell(0, 0)).total).toBe(10);
    expect(() => written(read("activation", [[[1]]], [[1]], { function: "sine" }), cell(0, 0))).toThrow("sine");
  });
  it("of concatenated heads names the head and its column", () => {
    const heads = [gridOf("h", [[1, 2]], 0), gridOf("h", [[3, 4]], 1)];
    const w = written(read("concat", [[[1, 2]]], [[1, 2, 3, 4]], {}, { heads }), cell(0, 3));
    expect([w.facts.map((f) => f.value), w.total]).toEqual([[2, 1], 4]);
  });
  it("of [CLS] joined to the patches finds the row below it", () => {
    const r = read("join", [[[9, 8]], [[1, 2], [3, 4]]], [[9, 8], [1, 2], [3, 4]]);
    expect([written(r, cell(0, 1)).total, written(r, cell(2, 0)).total]).toEqual([8, 3]);
  });
  it("of a pooling is one row taken, or the mean of all", () => {
    const one = read("pool", [[[1, 2], [3, 4]]], [[1, 2]], { function: "first" });
    expect([pooledRow(one), written(one, cell(0, 1)).total]).toEqual([0, 2]);
    const mean = read("pool", [[[1, 2], [3, 4]]], [[2, 3]], { function: "mean" });
    expect([pooledRow(mean), written(mean, cell(0, 0)).total]).toEqual([null, 2]);
  });
  it("of a lookup is the row of the table that the number names", () => {
    const r = read("lookup", [[[2], [0]], [[1, 2], [3, 4], [5, 6]]], [[5, 6], [1, 2]]);
    r.step.operands[1] = { ...r.step.operands[1]!, kind: "weight" };
    expect([written(r, cell(0, 1)).total, written(r, cell(1, 0)).total]).toEqual([6, 1]);
    const without = read("lookup", [[[1, 2], [3, 4]]], [[3, 4]], {}, { ids: [1] });
    expect(written(without, cell(0, 0)).total).toBe(3);
  });
  it("of patches names the pixel: channel by channel, row by row", () => {
    const picture = { grid: [2, 2], patch: [2, 2], width: 4, height: 4 };
    const pixels = Array.from({ length: 8 }, (_, y) => Array.from({ length: 4 }, (_, x) => y * 4 + x));
    const r = read("patches", [pixels], Array.from({ length: 4 }, () => Array(8).fill(0)), {}, { picture });
    expect(pixelOf(r, cell(3, 6))).toEqual({ channel: 1, y: 3, x: 2 });
    expect(written(r, cell(3, 6)).total).toBe((4 + 3) * 4 + 2);
  });
  it("of patches that overlap steps by the stride", () => {
    const picture = { grid: [2, 3], patch: [2, 2], width: 4, height: 3 };
    const r = read("patches", [[[0]]], [[0]], {}, { picture });
    expect(pixelOf(r, cell(5, 0))).toEqual({ channel: 0, y: 1, x: 2 });
  });
  it("of a choice is the place of the largest", () => {
    expect(written(read("choose", [[[0.1, 0.7, 0.2]]], [[1]]), cell(0, 0)).total).toBe(1);
  });
  it("of what is only put in is the value itself", () => {
    expect(written(read("tokens", [], [[42]]), cell(0, 0)).total).toBe(42);
    expect(written(read("pixels", [], [[0.25]]), cell(0, 0)).total).toBe(0.25);
  });
});

describe("functions", () => {
  it("erf agrees with tables", () => {
    const known: [number, number][] = [[0, 0], [0.5, 0.5204998778130465], [1, 0.8427007929497149], [2, 0.9953222650189527], [3, 0.9999779095030014]];
    for (const [x, y] of known) expect(erf(x)).toBeCloseTo(y, 12);
    expect(erf(-1)).toBeCloseTo(-0.8427007929497149, 12);
  });
  it("activations agree with hand-computed values", () => {
    expect(ACTIVATIONS.gelu!(1)).toBeCloseTo(0.8413447460685429, 12);
    expect(ACTIVATIONS.gelu_tanh!(1)).toBeCloseTo(0.8411919906082768, 10);
    expect(ACTIVATIONS.silu!(1)).toBeCloseTo(0.7310585786300049, 12);
    expect(ACTIVATIONS.relu!(-3)).toBe(0);
  });
  it("a temperature sharpens or flattens, from logits and from probabilities alike", () => {
    const logits = [0, Math.log(3)];
    expect(Array.from(softened(logits, 1))[1]).toBeCloseTo(0.75, 12);
    expect(Array.from(softened(logits, 0.5))[1]).toBeCloseTo(0.9, 12);
    expect(Array.from(softened([0.25, 0.75], 0.5, true))[1]).toBeCloseTo(0.9, 12);
  });
});
