import { describe, expect, it } from "vitest";
import { brief, count, full, percent, three } from "./format";

describe("numbers", () => {
  it("are written with three significant digits", () => {
    expect([7.7174, -0.04119, 123.4, 1234.6, 0, 0.5, 51.44].map(three)).toEqual(
      ["7.72", "−0.0412", "123", "1235", "0", "0.500", "51.4"]);
  });
  it("go to powers of ten where digits would be lost", () => {
    expect([2.4e-7, 1e-7, -123456, 1e5].map(three)).toEqual(["2.4e-7", "1e-7", "−1.23e5", "1e5"].map((s) => s.replace("e-", "e−")));
  });
  it("fit a cell in five characters", () => {
    const texts = [33.81, -34.26, 0.004, -0.004, 0, -999.4, 12345, 100.2, 9.999].map((x) => brief(x));
    expect(texts).toEqual(["33.8", "−34.3", "0.00", "0.00", "0", "−999", "1e4", "100", "10.0"]);
    expect(texts.every((text) => text.length <= 5)).toBe(true);
  });
  it("of a matrix of small numbers keep their digits", () => {
    expect([0.0412, -0.0049, 0].map((x) => brief(x, 0.09))).toEqual([".041", "−.005", "0"]);
    expect(brief(-0.0012, 0.005)).toBe("−1e−3");
  });
  it("are full on demand: the shortest text that is the same 32-bit number", () => {
    expect(full(Math.fround(0.1))).toBe("0.1");
    expect(Number(full(Math.fround(-7.71740961)).replace("−", "-"))).toBeCloseTo(-7.71740961, 6);
  });
  it("say what is not finite", () => {
    expect([NaN, Infinity, -Infinity].map(three)).toEqual(["NaN", "∞", "−∞"]);
  });
  it("of parameters and chances are short", () => {
    expect([85584, 124439808, 1.5e9, 600].map(count)).toEqual(["85.6k", "124M", "1.5B", "600"]);
    expect([1, 0.5, 0.0312, 0, 1.2e-5].map(percent)).toEqual(["100%", "50.0%", "3.12%", "0%", "1.2e-3%"].map((s) => s.replace("e-", "e−")));
  });
});
