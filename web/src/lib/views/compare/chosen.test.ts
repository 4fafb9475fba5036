import { describe, expect, it } from "vitest";
import { readChosen, toggled, usual, usualFigures, writeChosen } from "./chosen";

describe("chosen runs", () => {
  it("go into the address and come back, whatever they are called", () => {
    const chosen = [{ name: "a,b:c d", slot: 2 }, { name: "vit", slot: 0 }];
    expect(readChosen(writeChosen(chosen))).toEqual(chosen);
    expect(readChosen(null)).toBeNull();
    expect(readChosen("nonsense,9:x,1:%E0%A4%A,1:y,1:z")).toEqual([{ name: "y", slot: 1 }]);
  });
  it("keep their colours when another is taken away or added", () => {
    const three = ["a", "b", "c"].reduce(toggled, [] as ReturnType<typeof toggled>);
    const without = toggled(three, "a");
    expect(without).toEqual([{ name: "b", slot: 1 }, { name: "c", slot: 2 }]);
    expect(toggled(without, "d").at(-1)).toEqual({ name: "d", slot: 0 });
  });
  it("are eight at most", () => {
    const full = Array.from({ length: 9 }, (_, n) => `run ${n}`).reduce(toggled, [] as ReturnType<typeof toggled>);
    expect(full.length).toBe(8);
  });
  it("are at first those on the same data", () => {
    const run = (name: string, data: string) => ({ name, data, task: "t", curves: ["loss"], folder: `/runs/${name}` });
    expect(usual([run("x", "digits"), run("a", "dates"), run("b", "dates"), { ...run("c", "dates"), curves: [] }])).toEqual([{ name: "a", slot: 0 }, { name: "b", slot: 1 }]);
    expect(usual([run("a", "dates"), run("b", "dates"), run("x", "digits"), run("y", "digits"), run("z", "digits")], "b").map((one) => one.name)).toEqual(["b", "a"]);
    expect(usual([])).toEqual([]);
  });
  it("are drawn by their losses and a share that all of them have", () => {
    expect(usualFigures([["loss", "rate", "valid/loss", "accuracy", "valid/accuracy"], ["loss", "valid/loss", "valid/accuracy"]])).toEqual(["loss", "valid/loss", "valid/accuracy"]);
    expect(usualFigures([["loss"], ["loss", "valid/accuracy"]])).toEqual(["loss"]);
  });
});
