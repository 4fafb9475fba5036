import { describe, expect, it } from "vitest";
import { given, givenWords, readSpot, writeSpot } from "./place.svelte";

describe("the address", () => {
  it("holds the whole state and gives it back", () => {
    const spot = {
      ...readSpot(""), model: "runs/gpt", inputs: { text: "नमस्ते, & = # 100%" }, step: "decoder.0.attention.scores", head: 2,
      cell: { row: 7, column: 1 }, zoom: "cell" as const, theme: "dark" as const, present: true, more: { beams: "3" },
    };
    expect(readSpot(writeSpot(spot))).toEqual(spot);
  });
  it("of the start is empty", () => {
    expect(writeSpot(readSpot(""))).toBe("#");
  });
  it("counts heads from 1 and cells from 0", () => {
    expect(readSpot("#head=3&cell=0,5")).toMatchObject({ head: 2, cell: { row: 0, column: 5 } });
  });
  it("that makes no sense falls back to the start of it", () => {
    expect(readSpot("#head=x&cell=a,b&zoom=moon&theme=pink")).toMatchObject({ head: 0, cell: null, zoom: "part", theme: null });
  });
  it("calls a picture that was sent by its file's name", () => {
    expect(givenWords({ picture: "upload/0123" }, { name: "cat.png" })).toBe("cat.png");
    expect(givenWords({ picture: "upload/0123" }, null)).toBe("an uploaded picture");
    expect(givenWords({ picture: "digits/test/0" }, null)).toBe("digits/test/0");
    expect(givenWords({ source: "upload/x", target: "b" })).toBe("upload/x → b");
  });
  it("leaves out inputs that were not given", () => {
    expect(given({ text: "a", second: null, source: null, target: null, picture: null })).toEqual({ text: "a" });
  });
});
