import { describe, expect, it } from "vitest";
import type { Change, Pass } from "../../api/types";
import { sitesOf } from "./changed_sites";
import { factorAt, slideOf } from "./heat";
import { askedPlace, askedTokens } from "./places";
import { points } from "./points";
import { families, grouped } from "./sites";

const step = (part: string, site: string, operation = "product", kind = "site") => ({ part, short: site.split(".").at(-1), operation, result: { site, kind, rows: { of: "tokens", size: 3, labels: null } } });
const PASS = {
  steps: [
    step("input", "input.ids", "tokens"), step("input", "input.embedded"), step("input", "input.embedded", "lookup"), step("input", "table", "lookup", "weight"),
    step("encoder.0.attention", "encoder.blocks.0.attention.query"), step("encoder.1.attention", "encoder.blocks.1.attention.query"), step("head", "logits"), step("head", "chosen", "choose"),
  ],
} as unknown as Pass;

describe("families of sites", () => {
  it("take the same step of every block together, each site once", () => {
    expect(families(PASS).map((one) => [one.id, one.members.map((member) => member.layer)])).toEqual([
      ["input.embedded", [null]], ["encoder.blocks.*.attention.query", [0, 1]], ["logits", [null]],
    ]);
  });
  it("are grouped by the part that they belong to", () => expect(grouped(families(PASS)).map((one) => one.group)).toEqual(["input", "encoder blocks, self-attention", "head"]));
});

describe("sites that a change acts on", () => {
  const of = (change: Change, family: string, both = false) => sitesOf([change], { model: { family }, tokens: both ? { source: [] } : { tokens: [] } } as unknown as Pass);
  it("are the weighted values of heads that are off", () => expect(of({ kind: "heads-off", stack: "cross", layer: 1, heads: [0] }, "transformer", true)).toEqual(["decoder.blocks.1.cross.output"]));
  it("are what goes into the softmax, which a T5 has biased", () => {
    expect(of({ kind: "temperature", stack: "encoder", factor: 2 }, "t5", true)).toEqual(["encoder.blocks.*.attention.biased"]);
    expect(of({ kind: "temperature", stack: "cross", factor: 2 }, "t5", true)).toEqual(["decoder.blocks.*.cross.scaled"]);
  });
  it("are both sides' positions", () => expect(of({ kind: "no-positions" }, "transformer", true)).toEqual(["source.positions", "target.positions"]));
});

describe("the slider of a temperature", () => {
  it("has 1 in the middle and 0.1 and 10 at its ends", () => expect([-20, 0, 20].map(factorAt)).toEqual([0.1, 1, 10]));
  it("finds its way back", () => {
    for (let n = -20; n <= 20; n++) expect(slideOf(factorAt(n))).toBe(n);
  });
});

describe("a difference of probabilities", () => {
  it("always has its sign", () => expect([0.1, -0.0254, 0].map(points)).toEqual(["+10.0", "−2.54", "0"]));
});

describe("the place that is asked about", () => {
  const pass = (of: string, places: number[], tokens = 4) => ({ model: { family: "bert" }, tokens: { tokens: Array.from({ length: tokens }, (_, id) => ({ id })) }, predictions: places.map((place) => ({ of, place, top: [] })) }) as unknown as Pass;
  it("is what the address says, where that exists", () => expect([askedPlace(pass("next", [0, 1, 2, 3]), "2"), askedPlace(pass("next", [0, 1, 2, 3]), "9")]).toEqual([2, null]));
  it("is the first blank of a text that has one", () => expect(askedPlace(pass("word", [3]), null)).toBe(3));
  it("is the middle of a text without a blank", () => expect(askedPlace(pass("word", [0, 1, 2, 3]), null)).toBe(2));
  it("is none where the model answers once", () => expect([askedTokens(pass("class", [0])), askedPlace(pass("class", [0]), "1")]).toEqual([null, null]));
});
