import { describe, expect, it } from "vitest";
import type { AttentionKind, Pass } from "../../api/types";
import { gridOf } from "../../math/grid";
import type { Summary } from "./api";
import { eased, linesOf, nearest, strongest } from "./lines";
import { dense, measureIn, measuresOf, ordered, scoreAt, thumbSize } from "./measures";
import { squares } from "./squares";
import { answersOnce, largestAt, pairIn, siteOf, tellingRow, topWithout, whereIn } from "./where";
import { patchesSvg, shareOf } from "./picture_file";

const told = (more: Partial<Summary> = {}): Summary => ({
  kind: "encoder", layers: 2, heads: 2, unit: "tokens", distance: [[1, 3], [2, 0.5]], left_out: [],
  measures: [
    { name: "previous", formula: "mean", means: "looks back", lowest: false, values: [[0.1, 0.9], [0.2, 0.3]], best: { layer: 0, head: 1, score: 0.9, site: "s" } },
    { name: "next", formula: "mean", means: "looks ahead", lowest: false, values: [[0, 0], [0, 0]], best: { layer: 0, head: 0, score: 0, site: "s" } },
    { name: "same", formula: "mean", means: "same", lowest: false, values: null, best: null },
    { name: "entropy", formula: "H", means: "few", lowest: true, values: [[2, 1], null], best: { layer: 0, head: 1, score: 1, site: "s" } },
  ],
  ...more,
});

describe("the figure under each head", () => {
  const all = measuresOf(told());
  it("is the distance first, then the scores", () => {
    expect(all.map((one) => one.name)).toEqual(["distance", "previous", "next", "same", "entropy"]);
    expect(measuresOf(told({ distance: null, unit: null }))[0]!.name).toBe("previous");
  });
  it("marks no head as the best where all scores are 0", () => {
    expect(all.find((one) => one.name === "next")!.best).toBeNull();
    expect(all.find((one) => one.name === "previous")!.best).toMatchObject({ layer: 0, head: 1 });
  });
  it("is one that can be said of this input", () => {
    expect(measureIn(all, "same")!.name).toBe("distance");
    expect(measureIn(all, "entropy")!.name).toBe("entropy");
    expect(measureIn([], "entropy")).toBeNull();
  });
  it("sorts the most telling first: the highest, of entropy the lowest, and a missing layer last", () => {
    const order = (name: string) => ordered(2, 2, measureIn(all, name)).map(({ layer, head }) => `${layer}${head}`);
    expect(order("previous")).toEqual(["01", "11", "10", "00"]);
    expect(order("entropy")).toEqual(["01", "00", "10", "11"]);
    expect(ordered(1, 2, null)).toEqual([{ layer: 0, head: 0 }, { layer: 0, head: 1 }]);
    expect(scoreAt(measureIn(all, "entropy"), { layer: 1, head: 0 })).toBeNull();
  });
  it("loses its zero where there is little room", () => {
    expect([dense("0.0412"), dense("−0.5"), dense("10.2")]).toEqual([".0412", "−.5", "10.2"]);
  });
});

describe("thumbnails", () => {
  it("of 12 x 12 heads have their figures beside them and fit the stage", () => {
    const fit = thumbSize(12, 12, 906, 430);
    expect(fit.beside).toBe(true);
    expect(fit.width).toBeLessThanOrEqual(906);
  });
  it("of few heads are large, with the figure below", () => {
    expect(thumbSize(2, 4, 906, 430)).toMatchObject({ side: 108, beside: false });
  });
});

describe("lines", () => {
  const grid = gridOf("w", [[1, 0, 0], [0.25, 0.75, 0], [0.5, 0.3, 0.2]]);
  it("leave out what is too thin or too many, and say how many", () => {
    const { lines, left } = strongest(grid, 0, 3, 0.25, 3);
    expect(lines.map((one) => [one.row, one.column])).toEqual([[0, 0], [1, 1], [2, 0]]);
    expect(left).toBe(3);
  });
  it("of one token are its row, or its column, without those of no weight", () => {
    expect(linesOf(grid, { side: "row", place: 1 }).map((one) => one.column)).toEqual([0, 1]);
    expect(linesOf(grid, { side: "column", place: 0 }).map((one) => one.row)).toEqual([0, 1, 2]);
  });
  it("leave and arrive level, and are half way down in the middle", () => {
    expect(eased(0)).toBeCloseTo(0, 6);
    expect(eased(1)).toBeCloseTo(1, 6);
    expect(eased(0.5)).toBeCloseTo(0.5, 6);
    expect(eased(0.1)).toBeLessThan(0.1);
  });
  it("are found by a point near them", () => {
    const { lines } = strongest(grid, 0, 3, 0, 99);
    expect(nearest(lines, 0, 1.5, 0.3)?.row).toBe(1);
    expect(nearest([{ row: 0, column: 2, weight: 1 }], 0.5, 1.5, 0.2)).not.toBeNull();
    expect(nearest([{ row: 0, column: 2, weight: 1 }], 0.5, 2.4, 0.2)).toBeNull();
  });
});

describe("the place", () => {
  const kind = (size: number, of: AttentionKind["rows"]["of"] = "tokens"): AttentionKind => ({ kind: "decoder", layers: 2, heads: 3, rows: { of, size, labels: null }, columns: { of, size, labels: null } });
  const pass = (more: object) => ({ attention: [kind(9)], steps: [{ id: "decoder.1.attention.softmax", part: "decoder.1.attention" }], picture: null, predictions: [], ...more }) as unknown as Pass;
  it("is the layer of the step and the head of the address", () => {
    expect(whereIn(pass({}), "decoder.1.attention.softmax", 7)).toMatchObject({ layer: 1, head: 2 });
    expect(whereIn(pass({ attention: [] }), null, 0)).toBeNull();
    expect(siteOf("cross", 3)).toBe("decoder.blocks.3.cross.weights");
  });
  it("looks from where something is predicted: a blank, else the last token; [CLS] of a picture", () => {
    expect(tellingRow(pass({ predictions: [{ of: "word", place: 4, top: [] }, { of: "follows", place: 0, top: [] }] }), kind(9))).toBe(4);
    expect(tellingRow(pass({ predictions: [0, 1, 8].map((place) => ({ of: "next", place, top: [] })) }), kind(9))).toBe(8);
    expect(tellingRow(pass({ picture: { grid: [4, 4], class_token: true } }), kind(17))).toBe(0);
  });
  it("answers once for a picture or a sentence, and everywhere for words", () => {
    expect(answersOnce(pass({ predictions: [{ of: "follows" }] }))).toBe(true);
    expect(answersOnce(pass({ predictions: [{ of: "word" }, { of: "follows" }] }))).toBe(false);
  });
  it("reads pairs that are inside, and nothing else", () => {
    expect(pairIn("3,4", 5, 5)).toEqual([3, 4]);
    expect([pairIn("5,0", 5, 5), pairIn("x", 5, 5), pairIn(null, 5, 5)]).toEqual([null, null, null]);
  });
  it("finds the largest, and the largest but for itself", () => {
    expect(largestAt([0.1, 0.7, 0.2])).toBe(1);
    expect(topWithout([0.1, 0.7, 0.2], 1)).toBe(0.2);
    expect(topWithout([0, 0], null)).toBe(0);
  });
});

describe("cells", () => {
  it("of a large map are square and fit; those of a small one have room for numbers", () => {
    const large = squares(512, 512, 600);
    expect(large.w).toBe(large.h);
    expect(large.w * 512).toBeLessThanOrEqual(600);
    expect(squares(9, 9, 600)).toEqual({ w: 40, h: 28 });
  });
});

describe("a picture with a number per patch, as a file", () => {
  const palette = { page: "#fff", ink: "#111", soft: "#555", faint: "#777", accent: "#00f", mask1: "#eee", mask2: "#ccc" };
  it("is as deep as the number is large, which it names in full", () => {
    const figure = { address: "", width: 20, height: 10, down: 1, along: 2, step: { x: 10, y: 10 }, patch: { w: 10, h: 10 }, values: [0.25, 0.5], top: 0.5, own: 1, colour: [200, 80, 0] };
    const page = new DOMParser().parseFromString(patchesSvg(figure, "data:,x", { name: "head 1", palette }), "image/svg+xml");
    const patches = [...page.querySelectorAll("rect:has(title)")];
    expect(patches.map((one) => one.textContent)).toEqual(["patch 1,1: 0.25", "patch 1,2: 0.5"]);
    expect(patches.map((one) => one.getAttribute("fill-opacity"))).toEqual(["0.461", "0.922"]);
    expect(page.querySelector('rect[stroke="#2f5bd7"]')!.getAttribute("x")).toBe("10");
    expect([shareOf(3, 2), shareOf(-1, 2), shareOf(1, 0)]).toEqual([1, 0, 0]);
  });
});
