import { describe, expect, it } from "vitest";
import { changesOf, lasting, pace, withLines } from "./words";

describe("changes", () => {
  it("are apart by spaces or lines, and keep what is inside a list together", () => {
    expect(changesOf("steps=200 optimiser.rate=1e-3\n seed=1")).toEqual(["steps=200", "optimiser.rate=1e-3", "seed=1"]);
    expect(changesOf("directions=[en>de, de>en] steps=3")).toEqual(["directions=[en>de, de>en]", "steps=3"]);
    expect(changesOf("  ")).toEqual([]);
  });
  it("that are not key=value are sent as they are: the server says what is wrong with them", () => {
    expect(changesOf("faster please")).toEqual(["faster please"]);
  });
});

it("times are read at a glance", () => {
  expect([0.4, 12, 89.6, 125, 3600, 7500, 1200].map(lasting)).toEqual(["0 s", "12 s", "1 min 30 s", "2 min 5 s", "1 h", "2 h 5 min", "20 min"]);
});

describe("pace", () => {
  it("is steps a second over the last minute that was watched", () => {
    expect(pace([{ at: 0, step: 0 }, { at: 100, step: 100 }, { at: 110, step: 200 }])).toBe(10);
  });
  it("is not known from one mark, nor where a run went back", () => {
    expect(pace([{ at: 0, step: 5 }])).toBeNull();
    expect(pace([{ at: 0, step: 50 }, { at: 5, step: 40 }])).toBeNull();
    expect(pace([])).toBeNull();
  });
});

describe("lines of metrics", () => {
  const lines: Record<string, number | null>[] = [{ step: 10, loss: 2, rate: 0.1 }, { step: 10, "valid/loss": 3 }, { step: 20, loss: null, rate: 0.2 }];
  it("become curves, without what is no number", () => {
    expect(withLines({}, { lines, again: false })).toEqual({ loss: [[10, 2]], rate: [[10, 0.1], [20, 0.2]], "valid/loss": [[10, 3]] });
  });
  it("follow the earlier ones, unless the run went back", () => {
    const before = { loss: [[5, 4]] as [number, number][] };
    expect(withLines(before, { lines, again: false }).loss).toEqual([[5, 4], [10, 2]]);
    expect(withLines(before, { lines, again: true }).loss).toEqual([[10, 2]]);
    expect(before.loss).toEqual([[5, 4]]);
  });
});
