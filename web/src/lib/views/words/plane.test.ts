import { describe, expect, it } from "vitest";
import type { ModelCard, Pass } from "../../api/types";
import { gridOf } from "../../math/grid";
import { dot, dotsWith, mostOf, nextPair, readPair } from "./dots";
import { fitted, matching, onScreen, roomFor, towards } from "./plane";
import { largestDifference, window } from "./rows";
import { sitesRead } from "./sites_read";
import { firstSentences, firstWord, spelt } from "./spelling";

const at = (id: number, text: string, x = 0, y = 0) => ({ id, text, x, y });

describe("a plane in a drawing", () => {
  it("has one unit for both directions and stays within the margin", () => {
    const points = [at(0, "a", -1, -2), at(1, "b", 3, 2)];
    const frame = fitted(points, 200, 100, 10);
    expect(frame.scale).toBe(20);
    expect(onScreen(frame, points[0]!)).toEqual([60, 90]);
    expect(onScreen(frame, points[1]!)).toEqual([140, 10]);
  });
  it("does not divide by nothing", () => expect(onScreen(fitted([at(0, "a", 5, 5)], 100, 100, 10), { x: 5, y: 5 })).toEqual([50, 50]));
});

describe("names", () => {
  const box = (x: number) => ({ x, y: 0, width: 10, height: 10 });
  it("are drawn where none before them stands", () => expect(roomFor([box(0), box(5), box(20)], 0, 9)).toEqual([0, 2]));
  it("that must be there are", () => expect(roomFor([box(0), box(5), box(20)], 2, 9)).toEqual([0, 1, 2]));
  it("are no more than asked for", () => expect(roomFor([box(0), box(20), box(40)], 0, 2)).toEqual([0, 1]));
});

describe("going from word to word", () => {
  const points = [at(0, "o"), at(1, "right", 2, 1), at(2, "far right", 9, 0), at(3, "up", 0, 1)];
  it("takes the nearest that way", () => {
    expect(towards(points, points[0]!, 1, 0)?.text).toBe("right");
    expect(towards(points, points[0]!, 0, 1)?.text).toBe("up");
    expect(towards(points, points[0]!, -1, 0)).toBeNull();
  });
});

describe("a search", () => {
  const points = [at(0, "␣king"), at(1, "making"), at(2, "Kingdom")];
  it("finds what begins with it first, whatever its case and space", () => expect(matching(points, "king", 9).map((one) => one.id)).toEqual([0, 2, 1]));
  it("for nothing finds nothing", () => expect(matching(points, " ", 9)).toEqual([]));
});

describe("spelling", () => {
  it("makes visible spaces spaces again", () => expect(spelt("␣self")).toBe("self"));
  const pass = { tokens: { tokens: [{ id: 2, shown: "[CLS]", special: true }, { id: 7, shown: "is", special: false }, { id: 9, shown: "class", special: false }] } } as unknown as Pass;
  it("begins with the longest token that is no mark, and is there", () => {
    expect(firstWord(pass, "source")).toBe("#9");
    expect(firstWord(pass, "source", new Set([7]))).toBe("#7");
    expect(firstWord(null, "source")).toBeNull();
  });
  it("turns an example's words round for a second sentence", () => {
    const card = { takes: ["source", "target"], example: { source: "en>de: March 3, 1998" } } as unknown as ModelCard;
    expect(firstSentences(card)).toEqual({ word: "March", sentences: ["en>de: March 3, 1998", "en>de: 1998 3 March"] });
  });
});

describe("rows of the table", () => {
  it("around one are as many as there are", () => {
    expect(window(0, 100)).toEqual([0, 1, 2, 3, 4]);
    expect(window(99, 100)).toEqual([95, 96, 97, 98, 99]);
    expect(window(1, 3)).toEqual([0, 1, 2]);
  });
  it("differ by the largest difference of their cells", () => expect(largestDifference([1, 2], [1, -1])).toBe(3));
});

describe("dot products", () => {
  const grid = gridOf("p", [[1, 0], [0.5, 2], [-1, 1]]);
  it("are sums of products", () => expect(dot([1, 2], [3, -1])).toBe(1));
  it("of one row with all", () => expect(dotsWith(grid, 1)).toEqual([0.5, 4.25, 1.5]));
  it("compare the last two that were clicked", () => expect(nextPair(nextPair([0, 5], 3), 4)).toEqual([3, 4]));
  it("are coloured without the one cell that is far larger", () => {
    const many = Array.from({ length: 2000 }, (_, n) => (n % 2 ? 1 : -1));
    expect(mostOf(many)).toBe(1);
    expect(mostOf([...many, 50])).toBe(1);
    expect(mostOf([...many, -2])).toBe(2);
  });
  it("stay within the table", () => expect([readPair("9,1", 3), readPair("x", 3)]).toEqual([[2, 1], [0, 2]]));
});

describe("sites that are read", () => {
  it("have the names of the model's parts", () => {
    expect(sitesRead({ takes: ["source", "target"], family: "t5" }, "positions", "target")).toEqual(["decoder_bias.weight"]);
    expect(sitesRead({ takes: ["text"], family: "gpt" }, "sentences", "source")).toEqual(["input.tokens.weight", "decoder.blocks.*.after_feed_forward"]);
  });
});
