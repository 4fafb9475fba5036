import { describe, expect, it } from "vitest";
import type { ModelCard, Pass } from "../../api/types";
import { asked, departures, partners, sameTokens, weightsStep } from "./pair";

const card = (id: string, family: string, takes: string[], random = false, problem: string | null = null) => ({ id, family, takes, random, problem }) as ModelCard;
const step = (id: string, part: string, operation: string, departs: string[] = []) => ({ id, part, operation, departs });
const pass = (steps: object[], tokens: object = {}) =>
  ({ steps, tokens, attention: [{ kind: "encoder", layers: 2 }, { kind: "decoder", layers: 2 }, { kind: "cross", layers: 2 }] }) as unknown as Pass;

describe("two models", () => {
  it("are compared where they take the same input, nearest kin first", () => {
    const left = card("a", "gpt", ["text"]);
    const shelf = [left, card("v", "vit", ["image"]), card("b", "bert", ["text"]), card("r", "gpt", ["text"], true), card("g", "gpt", ["text"]), card("x", "gpt", ["text"], false, "broken")];
    expect(partners(shelf, left).map((one) => one.id)).toEqual(["g", "r", "b"]);
  });
  it("differ where one departs from the paper and the other does not", () => {
    const left = pass([step("1", "p", "norm", ["norm first", "tied"]), step("2", "p", "norm", ["norm first"])]);
    const right = pass([step("1", "p", "norm", ["tied", "learned positions"])]);
    expect(departures(left, right)).toEqual({ left: ["norm first"], right: ["learned positions"], both: ["tied"] });
  });
  it("have tokens of their own", () => {
    const tokens = (...texts: string[]) => ({ tokens: texts.map((text) => ({ text })) });
    expect(sameTokens(pass([], tokens("a", "b")), pass([], tokens("a", "b")))).toBe(true);
    expect(sameTokens(pass([], tokens("a", "b")), pass([], tokens("ab")))).toBe(false);
    expect(asked(pass([], tokens("a", "b"))).length).toBe(2);
    expect(asked(pass([], { source: [], target: [{ text: "x" }] })).length).toBe(1);
    expect(asked(pass([]))).toEqual([]);
  });
  it("lead to the step that made a head's weights", () => {
    const one = pass([step("s", "decoder.1.attention", "product"), step("d", "decoder.1.attention", "softmax"), step("c", "decoder.1.cross", "softmax"), step("e", "encoder.0.attention", "softmax")]);
    expect([weightsStep(one, "decoder", 1)?.id, weightsStep(one, "cross", 1)?.id, weightsStep(one, "encoder", 0)?.id, weightsStep(one, "encoder", 1)]).toEqual(["d", "c", "e", null]);
  });
});
