import { rgb } from "d3";
import { describe, expect, it } from "vitest";
import { contrast, lightness, placeColour, scaleOf, type Colouring, type Theme } from "./scales";

const everyScale = (["signed", "share"] as Colouring[]).flatMap((c) => (["light", "dark"] as Theme[]).map((t) => [c, t] as const));

describe("scales", () => {
  it("of signed values are centred at zero, whatever the ends", () => {
    const scale = scaleOf("signed", -1, 4, "light");
    expect([scale.low, scale.high]).toEqual([-4, 4]);
    expect(scale.css(0)).toBe("#f4f3f0");
    expect(scale.css(4)).toBe("#d6620e");
  });
  it("of shares start at 0", () => {
    const scale = scaleOf("share", 0.1, 0.8, "light");
    expect([scale.low, scale.high]).toEqual([0, 0.8]);
  });
  it.each(everyScale)("%s on %s change lightness in one direction on each side, for eyes that miss hues", (colouring, theme) => {
    const scale = scaleOf(colouring, -1, 1, theme);
    const steps = Array.from({ length: 21 }, (_, i) => lightness(scale.css(i / 20)));
    const falls = steps.slice(1).map((l, i) => l - steps[i]!);
    expect(falls.every((d) => (theme === "light" ? d <= 0.5 : d >= -0.5))).toBe(true);
  });
  it.each(everyScale)("%s on %s give every cell's number a contrast of 4.5", (colouring, theme) => {
    const scale = scaleOf(colouring, -1, 1, theme);
    for (let x = -1; x <= 1; x += 0.05) expect(contrast(rgb(scale.css(x)), rgb(scale.ink(x)))).toBeGreaterThan(4.5);
  });
  it("of a matrix of zeros draw zero", () => {
    expect(scaleOf("signed", 0, 0, "dark").css(0)).toBe("#24262a");
  });
  it("for places give neighbours different colours, the same ones each time", () => {
    const colours = Array.from({ length: 8 }, (_, i) => placeColour(i, "light"));
    expect(new Set(colours).size).toBe(8);
    expect(placeColour(3, "light")).toBe(colours[3]);
  });
});
