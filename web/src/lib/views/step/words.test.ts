import { describe, expect, it } from "vitest";
import type { Pass, Step, Token } from "../../api/types";
import { cacheNote, cellAt, timeOf, toCome } from "./moment";
import { cutBy, firstOf, MASK, placeIn, sameButMasks, sentenceOf, toggled, wordsOf } from "./words";

const token = (shown: string, start: number | null, special = false): Token => ({ id: 0, text: shown, shown, start, end: start === null ? null : start + shown.length, special });

describe("masking a word", () => {
  const text = "The capital of France is Paris.";
  it("puts [MASK] in its place, and a second time the word again", () => {
    const masked = toggled(text, null, 15)!;
    expect(masked).toEqual({ text: "The capital of [MASK] is Paris.", was: text });
    expect(toggled(masked.text, masked.was, 17)).toEqual({ text, was: null });
  });
  it("keeps the other masks", () => {
    const one = toggled(text, null, 15)!;
    const two = toggled(one.text, one.was, one.text.indexOf("Paris"))!;
    expect(two).toEqual({ text: "The capital of [MASK] is [MASK].", was: text });
    expect(toggled(two.text, two.was, 15)).toEqual({ text: "The capital of France is [MASK].", was: text });
  });
  it("cannot restore what was never there, nor from another text", () => {
    expect(toggled("a [MASK] b", null, 3)).toBeNull();
    expect(toggled("a [MASK] b", "quite another text", 3)).toBeNull();
    expect(sameButMasks("a [MASK] b", "a word b")).toBe(true);
    expect(sameButMasks("a [MASK] b", "x word b")).toBe(false);
  });
  it("counts letters as the server does", () => {
    expect(placeIn("😀 hi", 2)).toBe(3);
    expect(wordsOf("It's [MASK], März!").map((word) => word.text)).toEqual(["It", "'", "s", MASK, ",", "März", "!"]);
  });
  it("knows the sentence and the first piece of a word", () => {
    const tokens = [token("[CLS]", null, true), token("Fr", 0), token("##ance", 2), token(MASK, 9, true), token("[SEP]", null, true), token("Par", 0), token("##is", 3), token("[SEP]", null, true)];
    expect([1, 3, 5, 6].map((n) => sentenceOf(tokens, n))).toEqual(["text", "text", "second", "second"]);
    expect([firstOf(tokens, 2, "France is [MASK]"), firstOf(tokens, 6, "Paris"), firstOf(tokens, 0, "")]).toEqual([1, 5, 0]);
  });
});

describe("a text as its tokens cut it", () => {
  const cut = (text: string, tokens: Token[]) => cutBy(text, tokens)?.map((piece) => [piece.token, piece.text]);
  it("counts letters, so that emoji shift nothing", () => {
    const tokens = [token("[CLS]", null, true), { ...token("😀😀", 0), end: 2 }, token("hi", 3), token("[SEP]", null, true)];
    expect(cut("😀😀 hi!", tokens)).toEqual([[1, "😀😀"], [null, " "], [2, "hi"], [null, "!"]]);
  });
  it("is not drawn where tokens lie over each other or nowhere", () => {
    expect(cut("ab", [token("ab", 0), token("b", 1)])).toBeUndefined();
    expect(cut("ab", [token("ab", null)])).toBeUndefined();
  });
});

describe("a moment of the decoder", () => {
  const axis = (of: string, size: number) => ({ of, size, labels: null });
  const step = { id: "x", part: "decoder.0.attention", operation: "scale", result: { rows: axis("target", 5), columns: axis("target", 5) } } as unknown as Step;
  const pass = { tokens: { source: [token("a", 0)], target: Array.from({ length: 5 }, () => token("t", null)) }, predictions: [], picture: null } as unknown as Pass;
  it("is a place of the target, and chooses its row", () => {
    expect([timeOf(pass, "3"), timeOf(pass, "9"), timeOf(pass, null), timeOf(pass, "-1")]).toEqual([3, 4, null, null]);
    expect(cellAt(pass, step, { row: 0, column: 2 }, 3)).toEqual({ row: 3, column: 2 });
    expect(cellAt(pass, step, { row: 0, column: 2 }, null)).toEqual({ row: 0, column: 2 });
  });
  it("shows a text's blank where no cell was asked for", () => {
    const filled = { tokens: { tokens: [] }, picture: null, predictions: [{ of: "word", place: 2, top: [] }, { of: "follows", place: 0, top: [] }] } as unknown as Pass;
    const rows = { ...step, result: { rows: axis("tokens", 5), columns: axis("one", 1) } } as unknown as Step;
    expect(cellAt(filled, rows, null, null)).toEqual({ row: 2, column: 0 });
  });
  it("hides, tested, what is not there yet; taught it hides nothing", () => {
    const hidden = toCome(step.result, { time: 2, way: "tested" })!;
    expect([hidden(2, 2), hidden(3, 0), hidden(1, 3)]).toEqual([false, true, true]);
    expect([toCome(step.result, { time: 2, way: "taught" }), toCome({ rows: axis("source", 2), columns: axis("dimensions", 4) }, { time: 2, way: "tested" })]).toEqual([null, null]);
  });
  it("says what the cache holds", () => {
    expect(cacheNote("decoder.blocks.0.attention.key", { time: 2, way: "tested" })).toBe("rows 0 to 1 from the cache, row 2 new");
    expect(cacheNote("decoder.blocks.0.attention.query", { time: 2, way: "tested" })).toBeNull();
    expect(cacheNote("decoder.blocks.0.attention.key", { time: 2, way: "taught" })).toBeNull();
  });
});
