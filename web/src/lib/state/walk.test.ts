import { describe, expect, it } from "vitest";
import type { Axis, Matrix, Pass, RailNode, Step } from "../api/types";
import { actionOf } from "./keys";
import { attentionOf, blockOf, cellIn, firstStep, labelsOf, moved, pageOf, zoomed } from "./walk";

const axis = (size: number, of: Axis["of"] = "tokens"): Axis => ({ of, size, labels: null });
const matrix = (rows: Axis, columns: Axis): Matrix => ({ key: "k", name: "E", means: "", rows, columns, heads: 1, colour: "signed", site: "s", kind: "site" });
const step = (id: string, part: string, rows = axis(5), columns = axis(5)): Step => ({
  id, part, short: id, title: id, formula: "", says: "", next: null, slip: null, departs: [], operation: "scale", operands: [],
  result: matrix(rows, columns), factor: null, epsilon: null, function: null, window: null, changed: null, code: { file: "", line: 1 },
});
const node = (id: string, part: string | null, parts: RailNode[] = []): RailNode => ({ id, title: id, shape: "", column: null, part, parts });
const steps = [step("a", "input"), step("b", "encoder.0.attention"), step("c", "encoder.0.feed_forward"), step("d", "head", axis(5), axis(50257, "vocabulary"))];
const pass = {
  steps, nodes: [node("input", "input"), node("block", null, [node("x", "encoder.0.attention"), node("y", "encoder.0.feed_forward")]), node("head", "head")],
  tokens: { tokens: ["This", "is"].map((shown, id) => ({ id, text: shown, shown, start: null, end: null, special: false })) },
  picture: { width: 4, height: 4, grid: [2, 2], patch: [2, 2], class_token: true },
  predictions: [{ of: "next", place: 4, top: [{ id: 40000, text: "x", logit: 1, probability: 1 }] }],
  attention: [{ kind: "encoder", layers: 1, heads: 2, rows: axis(5), columns: axis(5) }],
} as unknown as Pass;

describe("walking through a pass", () => {
  it("goes step by step and stops at the ends", () => {
    expect([moved(pass, steps[0]!, 1).id, moved(pass, steps[0]!, -1).id, moved(pass, steps[3]!, 1).id]).toEqual(["b", "a", "d"]);
  });
  it("knows the block of a part and the first step of a block", () => {
    expect(blockOf(pass, "encoder.0.feed_forward")?.id).toBe("block");
    expect(firstStep(pass, pass.nodes[1]!)?.id).toBe("b");
  });
  it("keeps the asked cell, and else starts at the place that is predicted", () => {
    expect(cellIn(pass, steps[1]!, { row: 2, column: 3 })).toEqual({ row: 2, column: 3 });
    expect(cellIn(pass, steps[3]!, null)).toEqual({ row: 4, column: 40000 });
    expect(cellIn(pass, steps[1]!, { row: 2, column: 9 }).row).toBe(2);
  });
  it("starts at a text's blank, not at what is said of the whole", () => {
    const filled = { ...pass, picture: null, predictions: [{ of: "word", place: 2, top: [{ id: 700, text: "x", logit: 1, probability: 1 }] }, { of: "follows", place: 0, top: [{ id: 1, text: "no", logit: 1, probability: 1 }] }] } as unknown as Pass;
    expect(cellIn(filled, steps[1]!, null).row).toBe(2);
    expect(cellIn(filled, steps[3]!, null)).toEqual({ row: 2, column: 700 });
    expect(cellIn(filled, step("e", "head", axis(1, "one"), axis(2, "classes")), null)).toEqual({ row: 0, column: 1 });
  });
  it("reads a vocabulary in pages, around the cell", () => {
    expect(pageOf(steps[3]!, { row: 0, column: 40000 })).toEqual({ r0: 0, r1: 5, c0: 39936, c1: 40960 });
    expect(pageOf(steps[3]!, { row: 0, column: 50256 }).c1).toBe(50257);
  });
  it("finds the attention that a part belongs to", () => {
    expect(attentionOf(pass, "encoder.0.feed_forward")?.layer).toBe(0);
    expect(attentionOf(pass, "input")).toBeNull();
  });
  it("names patches by row and column, [CLS] first", () => {
    expect(labelsOf(pass, axis(5, "patches"))).toEqual(["[CLS]", "patch 1,1", "patch 1,2", "patch 2,1", "patch 2,2"]);
    expect(labelsOf(pass, axis(2))).toEqual(["This", "is"]);
  });
  it("zooms from the model to the cell and no further", () => {
    expect([zoomed("part", 1), zoomed("cell", 1), zoomed("part", -1), zoomed("model", -1)]).toEqual(["cell", "cell", "block", "model"]);
  });
});

describe("keys", () => {
  it("mean steps, zoom and heads, but not while someone types or walks in a matrix", () => {
    const press = (key: string, target: Element) => {
      document.body.append(target);
      const event = new KeyboardEvent("keydown", { key, bubbles: true });
      target.dispatchEvent(event);
      return actionOf(event);
    };
    expect(press("ArrowRight", document.createElement("div"))).toEqual({ do: "step", by: 1 });
    expect(press("3", document.createElement("div"))).toEqual({ do: "head", head: 2 });
    expect(press("ArrowRight", document.createElement("input"))).toBeNull();
    expect(press(" ", document.createElement("button"))).toBeNull();
    const grid = document.createElement("div");
    grid.setAttribute("role", "grid");
    expect(press("ArrowRight", grid)).toBeNull();
  });
});
