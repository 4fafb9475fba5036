import { describe, expect, it } from "vitest";
import type { BeamNode, BeamTree } from "./api";
import { halves, momentOf, within } from "./compare";
import { events, type ServerEvent } from "./events";
import { addressOf, headIn, modeOf, settingsOf, valueOf, valuesOf } from "./settings";
import { behind, childrenOf, chosenFrom, laidOut, neighbour, ownLogprob, pathTo, ROOT, shortened, textOf, thickness } from "./tree";

function streamed(pieces: Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
}

describe("server-sent events", () => {
  it("are put together from pieces that end anywhere, also inside a letter", async () => {
    const bytes = new TextEncoder().encode('event: step\ndata: {"a":"März"}\n\nevent: end\ndata: {}\n\n');
    const cut = bytes.indexOf(0xc3) + 1; // between the two bytes of ä
    const found: ServerEvent[] = [];
    for await (const one of events(streamed([bytes.slice(0, 5), bytes.slice(5, cut), bytes.slice(cut)]))) found.push(one);
    expect(found).toEqual([{ name: "step", data: '{"a":"März"}' }, { name: "end", data: "{}" }]);
  });
  it("that are not complete are not told", async () => {
    const found: ServerEvent[] = [];
    for await (const one of events(streamed([new TextEncoder().encode("event: step\ndata: {}\n")]))) found.push(one);
    expect(found).toEqual([]);
  });
});

describe("the controls", () => {
  const address = (values: Record<string, string>) => (name: string) => values[name] ?? null;
  it("send a mode only what it takes", () => {
    const values = valuesOf(address({ "d-temperature": "0.7", "d-top-k": "5", "d-beams": "3", "d-length": "9" }), "sample");
    expect(settingsOf("sample", values)).toEqual({ temperature: 0.7, top_k: 5, seed: 0, length: 9 });
    expect(settingsOf("beam", values)).toEqual({ beams: 3, length_penalty: 1, length: 9 });
    expect(settingsOf("greedy", values)).toEqual({ length: 9 });
  });
  it("stay inside their bounds, and fall back to what is usual", () => {
    expect([valueOf("temperature", "9", "sample"), valueOf("beams", "x", "beam"), valueOf("top_k", "", "sample"), valueOf("seed", "1.5", "sample")]).toEqual([3, 4, null, 0]);
    expect([valueOf("length", "500", "beam"), valueOf("length", "500", "sample")]).toEqual([128, 256]);
  });
  it("have names of their own in the address", () => {
    expect([addressOf("length_penalty"), modeOf("beam"), modeOf("loud")]).toEqual(["d-length-penalty", "beam", "greedy"]);
  });
});

const token = (id: number) => ({ id, text: `t${id}`, shown: `t${id}`, start: null, end: null, special: false });
const node = (parent: number | null, step: number, logprob: number, fate: BeamNode["fate"], id: number): BeamNode => ({
  parent, step, logprob, score: logprob / step, fate, token: token(id), next: fate === "followed" ? [{ id: 9, text: "x", logprob: -1 }] : null,
});
const nodes = [node(null, 1, -0.1, "followed", 1), node(null, 1, -2, "followed", 2), node(null, 1, -5, "pruned", 3), node(1, 2, -2.2, "followed", 4), node(0, 2, -3, "finished", 5)];
const tree: BeamTree = { beams: 2, length_penalty: 1, first: [{ id: 1, text: "t1", logprob: -0.1 }], nodes, answers: [] };
const size = { dx: 100, dy: 50, w: 60, h: 20 };

describe("the tree of a search", () => {
  it("has a column for each step, the better above the worse", () => {
    const { spots, width, height } = laidOut(nodes, size);
    expect(spots.size).toBe(6);
    expect([spots.get(2)!.rank, spots.get(3)!.rank, spots.get(4)!.rank]).toEqual([2, 0, 1]);
    expect(spots.get(3)!.x - spots.get(0)!.x).toBe(100);
    expect(width).toBeGreaterThan(spots.get(3)!.x + 30);
    expect(height).toBeGreaterThan(spots.get(2)!.y + 10);
  });
  it("can leave out what was dropped", () => {
    const { spots } = laidOut(nodes, size, false);
    expect([...spots.keys()].sort()).toEqual([-1, 0, 1, 3, 4]);
  });
  it("knows the way to a node and what each token of it was worth", () => {
    expect(pathTo(nodes, 3)).toEqual([1, 3]);
    expect(pathTo(nodes, ROOT)).toEqual([]);
    expect(ownLogprob(nodes, 3)).toBeCloseTo(-0.2, 12);
    expect(pathTo(nodes, 3).reduce((sum, n) => sum + ownLogprob(nodes, n), 0)).toBeCloseTo(nodes[3]!.logprob, 12);
  });
  it("is walked by the arrow keys, and stops at its edges", () => {
    const { spots } = laidOut(nodes, size);
    const go = (from: number, key: string) => neighbour(nodes, spots, from, key);
    expect([go(3, "ArrowLeft"), go(0, "ArrowLeft"), go(ROOT, "ArrowLeft")]).toEqual([1, ROOT, null]);
    expect([go(ROOT, "ArrowRight"), go(1, "ArrowRight"), go(2, "ArrowRight")]).toEqual([0, 3, null]);
    expect([go(0, "ArrowDown"), go(0, "ArrowUp"), go(2, "ArrowDown"), go(3, "Home")]).toEqual([1, null, null, ROOT]);
  });
  it("tells what a node was chosen from and what stands behind it", () => {
    expect(chosenFrom(tree, 0)).toBe(tree.first);
    expect(chosenFrom(tree, 4)).toBe(nodes[0]!.next);
    expect([behind(tree, ROOT), behind(tree, 2)]).toEqual([tree.first, null]);
    expect([...childrenOf(nodes, ROOT)]).toEqual([[1, 0], [2, 1], [3, 2]]);
  });
  it("draws the sure thicker, and shortens what does not fit", () => {
    expect(thickness(1)).toBeGreaterThan(thickness(0.2));
    expect([shortened("self"), shortened("⏎␣␣␣␣␣␣␣"), shortened("artificially")]).toEqual(["self", "⏎␣␣␣…", "artific…"]);
    expect(textOf(["3.", "␣", "März", "⏎", "␣x"])).toBe("3. März\n x");
  });
});

describe("taught against tested", () => {
  it("cuts a text at a word, and refuses one that has only one", () => {
    expect(halves("This is Computer Vision Class")).toEqual({ given: "This is Computer", target: " Vision Class" });
    expect([halves("alone"), halves("  alone"), halves("")]).toEqual([null, null, null]);
  });
  it("knows which places are kept at a moment", () => {
    expect([0, 1, 2].map((place) => momentOf(place, 1))).toEqual(["cached", "now", "to come"]);
    expect([within("3", 2), within("-1", 2), within("x", 2), within(null, 2)]).toEqual([2, 0, 0, 0]);
  });
});

it("a head of cross-attention is counted from 1 in the address; anything else means all of them", () => {
  expect([headIn("1", 4), headIn("4", 4), headIn("5", 4), headIn("0", 4), headIn("x", 4), headIn(null, 4), headIn("1", 1)]).toEqual([0, 3, null, null, null, null, null]);
});
