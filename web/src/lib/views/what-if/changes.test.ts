import { describe, expect, it } from "vitest";
import type { Change, Pass } from "../../api/types";
import { decode, encode, fitting, headsOff, inWords, temperatures, toggled, withTemperature, withToken } from "./changes";

const KIND = { kind: "encoder" as const, layers: 3 };
const ALL: Change[] = [
  { kind: "heads-off", stack: "cross", layer: 1, heads: [0, 3] },
  { kind: "temperature", stack: "encoder", factor: 0.5 },
  { kind: "temperature", stack: "decoder", layer: 2, factor: 4 },
  { kind: "no-positions" },
  { kind: "tokens", place: 3, token: 50 },
  { kind: "tokens", stack: "decoder", place: 0, token: 7 },
  { kind: "patch", site: "encoder.blocks.0.attention.output", place: 2, other: { text: "a: b; c & ü 👋" } },
  { kind: "patch", site: "logits", other: { source: "x", target: "y" } },
];
const PASS = {
  attention: [{ kind: "encoder", layers: 2, heads: 4 }],
  tokens: { tokens: [{ id: 1, text: "a", shown: "a" }, { id: 2, text: "b", shown: "b" }] },
  steps: [{ result: { site: "logits" } }],
} as unknown as Pass;

describe("changes in the address", () => {
  it("come back as they were", () => expect(decode(encode(ALL))).toEqual(ALL));
  it("survive a query string", () => expect(decode(new URLSearchParams({ changes: encode(ALL) }).get("changes"))).toEqual(ALL));
  it("are the same with and without what the server fills in", () => {
    const filled = { ...ALL[0]!, factor: null, site: null, other: null, place: null, token: null };
    expect(encode([filled])).toBe(encode([ALL[0]!]));
  });
  it("that can't be read are left out", () => expect(decode("off:nobody.0:1;off:encoder.0:x;heat:encoder:-1;heat:encoder:;put::a:1;patch::;nonsense;blind")).toEqual([{ kind: "no-positions" }]));
  it("are none where there is nothing", () => expect(decode(null)).toEqual([]));
});

describe("heads", () => {
  it("go off and on, one change a layer, in order", () => {
    const two = toggled(toggled([], "encoder", 0, 2), "encoder", 0, 1);
    expect(two).toEqual([{ kind: "heads-off", stack: "encoder", layer: 0, heads: [1, 2] }]);
    expect(headsOff(two, "encoder", 0)).toEqual([1, 2]);
    expect(toggled(toggled(two, "encoder", 0, 1), "encoder", 0, 2)).toEqual([]);
  });
});

describe("temperatures", () => {
  it("of one layer leave the others at 1", () => {
    const one = withTemperature([], KIND, 1, 2);
    expect(one).toEqual([{ kind: "temperature", stack: "encoder", layer: 1, factor: 2 }]);
    expect(temperatures(one, KIND)).toEqual([1, 2, 1]);
  });
  it("of all are one change, and one layer can leave it", () => {
    const all = withTemperature([], KIND, null, 0.5);
    expect(all).toEqual([{ kind: "temperature", stack: "encoder", factor: 0.5 }]);
    expect(temperatures(withTemperature(all, KIND, 0, 1), KIND)).toEqual([1, 0.5, 0.5]);
  });
  it("of 1 are no change", () => expect(withTemperature(withTemperature([], KIND, null, 3), KIND, null, 1)).toEqual([]));
});

describe("tokens", () => {
  it("have one place each", () => expect(withToken(withToken([], { place: 1, token: 5 }), { place: 1, token: 6 })).toEqual([{ kind: "tokens", place: 1, token: 6 }]));
  it("of source and target do not meet", () => expect(withToken(withToken([], { stack: "encoder", place: 1, token: 5 }), { stack: "decoder", place: 1, token: 6 })).toHaveLength(2));
});

describe("what fits a pass", () => {
  it("is parted from what does not", () => {
    const changes = decode("off:encoder.1:3;off:encoder.1:4;off:encoder.2:0;off:cross.0:0;blind;put::1:9;put::2:9;patch:logits::text=x;patch:nowhere::text=x");
    expect(encode(fitting(changes, PASS).fit)).toBe("off:encoder.1:3;blind;put::1:9;patch:logits::text=x");
    expect(fitting(changes, PASS).odd).toHaveLength(5);
  });
});

describe("in words", () => {
  it("blocks and heads count from 1", () => expect(inWords({ kind: "heads-off", stack: "encoder", layer: 0, heads: [0, 2] }, PASS, String)).toBe("heads 1, 3 off · block 1"));
  it("a token is named by what it was and is", () => expect(inWords({ kind: "tokens", place: 1, token: 9 }, PASS, (id) => `word ${id}`)).toBe("place 1: b → word 9"));
});
