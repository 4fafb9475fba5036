import { describe, expect, it } from "vitest";
import { gridOf } from "../math/grid";
import { cut, half, turnedRound } from "./shared";

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
