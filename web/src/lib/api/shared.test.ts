import { describe, expect, it } from "vitest";
import { gridOf } from "../math/grid";
import { titled } from "../state/studio.svelte";
import { cut, half, PageSource, turnedRound, type SharedDocument } from "./shared";

describe("a pass inside the page", () => {
  it("reads 16-bit numbers by their bits", () => {
    expect([0x3c00, 0xc000, 0x3555, 0x0001, 0x7bff, 0x0000].map(half)).toEqual([1, -2, 0.333251953125, 2 ** -24, 65504, 0]);
    expect([half(0xfc00), half(0x7e00)]).toEqual([-Infinity, NaN]);
  });
  it("turns a matrix round", () => {
    expect([...turnedRound(gridOf("k", [[1, 2, 3], [4, 5, 6]])).values]).toEqual([1, 4, 2, 5, 3, 6]);
  });
  it("cuts the slice that is asked for, and keeps the range of the whole", () => {
    const part = cut(gridOf("k", [[1, 2, 3], [4, 5, 6]]), "k", 1, { r0: 1, r1: 2, c0: 1, c1: 3 });
    expect([[...part.values], part.min, part.max, part.head]).toEqual([[5, 6], 1, 6, 1]);
  });
});

it("what was left out of a page on purpose is no failure, and says why", async () => {
  const inside = { pass: {}, matrices: {}, left_out: [{ key: "site:scores", site: "scores", why: "the page would be too large" }] } as unknown as SharedDocument;
  const error: unknown = await new PageSource(inside).matrix("site:scores", 0).catch((reason: unknown) => reason);
  expect(String(error)).toContain("scores is not in this page: the page would be too large");
  expect([titled(error), titled(new Error("x"))]).toEqual(["Left out of this page", null]);
});
