import { describe, expect, it } from "vitest";
import type { StepTold, WeightNorms } from "./api";
import { blockOf, gridOf, layerOf, matrixShape, movedAt, remembered, telling, windowOf, within } from "./update";

const shown = {
  name: "w", rows: 100, columns: 130, slice: [64, 66, 128, 130] as [number, number, number, number],
  before: [[1, 2], [3, 4]], gradient: [[0.1, -0.9], [0.2, 0.3]], update: [[-0.01, 0.02], [0, 0]], after: [[0.99, 2.02], [3, 4]], adam: null,
};
const told = { shown, clipped: 0.5 } as StepTold;
const weight = { rate: 0.1, decay: 0.01 } as WeightNorms;

describe("the window of a weight", () => {
  it("is read from the address, and lies on a lattice of its size", () => {
    expect(windowOf("70,5,32")).toEqual({ row: 64, column: 0, size: 32 });
    expect(windowOf(null)).toEqual({ row: 0, column: 0, size: 16 });
    expect(windowOf("1,2,9")).toEqual({ row: 0, column: 0, size: 16 });
  });
  it("asks for the block of the server that it is in, never outside of the weight", () => {
    expect(blockOf({ row: 96, column: 128, size: 16 }, [100, 130])).toEqual({ rows: "64:100", columns: "128:130" });
    expect(blockOf({ row: 500, column: 0, size: 16 }, [128])).toEqual({ rows: "0:1", columns: "0:64" });
    expect(blockOf({ row: 0, column: 0, size: 16 }, null)).toBeNull();
  });
  it("is cut to what the server told", () => {
    expect(within({ row: 64, column: 128, size: 16 }, shown.slice)).toEqual({ r0: 64, r1: 66, c0: 128, c1: 130 });
    expect(within({ row: 0, column: 0, size: 1 }, shown.slice)).toEqual({ r0: 64, r1: 65, c0: 128, c1: 129 });
  });
  it("holds the numbers of its own cells", () => {
    const grid = gridOf(shown, "gradient", { r0: 64, r1: 66, c0: 129, c1: 130 });
    expect([...grid.values].map((x) => Math.fround(x))).toEqual([-0.9, 0.3].map(Math.fround));
    expect(grid).toMatchObject({ rows: 100, columns: 130, r0: 64, c0: 129 });
    expect(telling(gridOf(shown, "gradient", { r0: 64, r1: 66, c0: 128, c1: 130 }))).toEqual({ row: 64, column: 129 });
  });
});

describe("a weight", () => {
  it("is a matrix: vectors have one row, kernels are laid flat", () => {
    expect([[5], [2, 3], [4, 3, 2, 2]].map(matrixShape)).toEqual([[1, 5], [2, 3], [4, 12]]);
  });
  it("belongs to its block, or to what stands first in its name", () => {
    expect(["encoder.blocks.0.attention.out.weight", "source.tokens.weight", "blocks.11.norm.bias"].map(layerOf)).toEqual(["encoder.blocks.0", "source", "blocks.11"]);
  });
});

it("a cell's new value is its old one and the update, of which the decay is a part", () => {
  const moved = movedAt(told, weight, { row: 64, column: 129 });
  expect(moved).toMatchObject({ before: 2, gradient: -0.9, given: -0.45, update: 0.02, after: 2.02 });
  expect(moved.decay).toBeCloseTo(-0.002, 12);
  expect(moved.rest).toBeCloseTo(0.022, 12);
});

it("AdamW's step comes from what it remembers, and nothing is added where it does not move the weight", () => {
  const adam = { betas: [0.9, 0.99] as [number, number], eps: 1e-8, count: 2, first: [[0.019]], second: [[0.000199]] };
  const made = remembered(adam, 0.1, 0, 0)!;
  expect(made.mean).toBeCloseTo(0.1, 12);
  expect(made.square).toBeCloseTo(0.01, 12);
  expect(made.step).toBeCloseTo(-0.1, 6);
  expect(remembered(adam, 0, 0, 0)!.step).toBe(0);
  expect(remembered(null, 0.1, 0, 0)).toBeNull();
});
