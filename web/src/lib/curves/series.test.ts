import { describe, expect, it } from "vitest";
import { drawable, figureOf, grouped, isConstant, mayBeLog, nearest, slotColour, SLOTS, stopsOf, thinned, type Point } from "./series";

describe("figures", () => {
  it("know their part and their name", () => {
    expect(figureOf("valid/exact_match")).toEqual({ part: "valid", base: "exact_match" });
    expect(figureOf("loss")).toEqual({ part: "train", base: "loss" });
  });
  it("share a graph where they are the same figure; the loss comes first, rate and norm last", () => {
    expect(grouped(["rate", "valid/loss", "norm", "valid/top5", "loss", "accuracy", "valid/accuracy"])).toEqual([
      ["loss", ["loss", "valid/loss"]],
      ["accuracy", ["accuracy", "valid/accuracy"]],
      ["top5", ["valid/top5"]],
      ["rate", ["rate"]],
      ["norm", ["norm"]],
    ]);
  });
  it("that are shares have no logarithmic scale", () => {
    expect(["loss", "perplexity", "accuracy", "exact_match"].map(mayBeLog)).toEqual([true, true, false, false]);
  });
});

describe("points", () => {
  const points: Point[] = [[1, 4], [2, 2], [3, 0], [4, -1], [5, 3]];
  it("are thinned to means of neighbours, and say of how many", () => {
    expect(thinned(points, 3)).toEqual({ points: [[1.5, 3], [3.5, -0.5], [5, 3]], each: 2 });
    expect(thinned(points, 5).each).toBe(1);
  });
  it("at or below zero are not on a logarithmic scale", () => {
    expect(drawable([...points, [6, NaN]], true)).toEqual([[1, 4], [2, 2], [5, 3]]);
    expect(drawable([...points, [6, NaN]], false)).toEqual(points);
  });
  it("are read at the nearest step", () => {
    expect(nearest(points, 2.4)).toEqual([2, 2]);
    expect(nearest(points, 99)).toEqual([5, 3]);
    expect(nearest([], 1)).toBeNull();
  });
  it("of several curves make one list of steps", () => {
    expect(stopsOf([{ id: "a", name: "a", colour: "", points: [[1, 0], [3, 0]] }, { id: "b", name: "b", colour: "", points: [[2, 0], [3, 0]] }])).toEqual([1, 2, 3]);
  });
  it("that never change are known", () => {
    expect([isConstant([[1, 2], [2, 2]]), isConstant([[1, 2]]), isConstant(points)]).toEqual([true, false, false]);
  });
});

it("colours are as many as may be chosen, all different, in both themes", () => {
  for (const theme of ["light", "dark"] as const) expect(new Set(Array.from({ length: SLOTS }, (_, n) => slotColour(n, theme))).size).toBe(SLOTS);
});
