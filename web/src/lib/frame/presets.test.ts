import { describe, expect, it } from "vitest";
import { showing, spotOf, stillThere, type PresetOpened } from "./presets";

const opened: PresetOpened = {
  id: "it", title: "What is “it”?", says: "", needs: "minilm", command: "", model: "minilm", available: true, random: false, measure: "A[it, animal]",
  inputs: { text: "The animal" }, pass_id: "p", score: 0.5,
  spot: { tab: "step", step: "encoder.2.attention.weights", attention: "encoder", layer: 2, head: 7, cell: [9, 2] },
};

describe("a lecture's picture", () => {
  it("opens at its model, input, step, head and cell, and the address remembers which it is", () => {
    expect(spotOf(opened)).toEqual({
      tab: "step", model: "minilm", inputs: { text: "The animal" }, step: "encoder.2.attention.weights", head: 7, cell: { row: 9, column: 2 }, zoom: "part",
      more: { preset: "it" },
    });
  });
  it("opens the tab of attention at the step that makes its weights: layer and kind are in its name", () => {
    expect(spotOf({ ...opened, spot: { ...opened.spot, tab: "attention", cell: null } })).toMatchObject({ tab: "attention", step: "encoder.2.attention.weights", cell: null });
  });
  it("opens the atlas with the figure by which its head was chosen", () => {
    expect(spotOf({ ...opened, spot: { ...opened.spot, figure: "entropy" } }).more).toEqual({ preset: "it", "a-score": "entropy" });
  });
  it("tells what it shows without the formula that chose its head", () => {
    expect(showing({ says: "This one looks most at the token behind: mean of A[i, i+1].", measure: "mean of A[i, i+1]" })).toBe("This one looks most at the token behind.");
    expect(showing({ says: "Five words: every product fits.", measure: null })).toBe("Five words: every product fits.");
  });
  it("is left when the model or the input is another", () => {
    expect(stillThere(opened, { model: "minilm", inputs: { text: "The animal" } })).toBe(true);
    expect(stillThere(opened, { model: "minilm", inputs: { text: "The street" } })).toBe(false);
    expect(stillThere(opened, { model: "minilm", inputs: { text: "The animal", second: "It" } })).toBe(false);
    expect(stillThere(opened, { model: "other", inputs: { text: "The animal" } })).toBe(false);
  });
});
