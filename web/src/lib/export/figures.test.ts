import { describe, expect, it } from "vitest";
import { gridOf } from "../math/grid";
import { scaleOf } from "../math/scales";
import { barsSvg } from "./bars";
import { drawingSvg, framed, plainColour } from "./drawing";
import { heatMapSvg, type HeatFigure } from "./heatmap";
import { fromWhere } from "./index";
import { WritingPen } from "./pen";
import { fileName, lines, type Palette } from "./write";

const palette: Palette = { page: "#fff", ink: "#111", soft: "#555", faint: "#777", accent: "#00f", mask1: "#eee", mask2: "#ccc" };
const paint = (width: number, height: number) => `data:image/png;base64,${width}x${height}`;

function figure(rows: number[][], more: Partial<HeatFigure> = {}): HeatFigure {
  const grid = gridOf("site:scores", rows, 0);
  return {
    name: "W_Q", means: "scores", grid, scale: scaleOf("signed", grid.min, grid.max, "light"), cell: { w: 30, h: 26 }, rows: null, columns: null, upright: true, numbers: true,
    masked: (_r, _c, x) => x === -Infinity, from: ["model", "scores"], palette, ...more,
  };
}

function parsed(svg: string): Document {
  const found = new DOMParser().parseFromString(svg, "image/svg+xml");
  expect(found.querySelector("parsererror")).toBeNull();
  return found;
}

const titles = (page: Document) => [...page.querySelectorAll("rect > title")].map((one) => one.textContent);
const words = (page: Document) => [...page.querySelectorAll("text")].map((one) => one.textContent);

describe("a heat map as a file", () => {
  it("has an element for every cell, with its colour and its value in full", () => {
    const one = figure([[0.1, -2.5], [3, 4]], { rows: ["it", "<b>&\""], columns: ["the", "animal"] });
    const page = parsed(heatMapSvg(one, paint));
    expect(titles(page)).toEqual(["it, the: 0.1", "it, animal: −2.5", '<b>&", the: 3', '<b>&", animal: 4']);
    const fills = [...page.querySelectorAll("rect:has(title)")].map((rect) => rect.getAttribute("fill"));
    expect(fills).toEqual([0.1, -2.5, 3, 4].map((x) => one.scale.css(x)));
    expect(words(page)).toEqual(expect.arrayContaining(["0.10", "it", "animal", "model · scores", "4.00   this matrix: −2.50 to 4.00"]));
    expect(page.querySelector("image")).toBeNull();
  });
  it("hatches what is masked and writes no number into it", () => {
    const page = parsed(heatMapSvg(figure([[1, -Infinity]]), paint));
    expect(titles(page)).toEqual(["0, 0: 1", "0, 1: masked"]);
    const hatched = page.querySelectorAll("rect:has(title)")[1]!.getAttribute("fill")!;
    expect(page.getElementById(/#(.+)\)/.exec(hatched)![1]!)?.tagName).toBe("pattern");
    expect(words(page)).not.toContain("−∞");
  });
  it("writes up to 64 by 64 as cells, and what is larger as the pixels of a picture", () => {
    const square = (n: number) => Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_, j) => i - j));
    expect(heatMapSvg(figure(square(64)), paint).match(/<rect [^>]*><title>/g)?.length).toBe(4096);
    const large = parsed(heatMapSvg(figure(square(65), { cell: { w: 2, h: 2 } }), paint));
    expect(large.querySelectorAll("rect:has(title)").length).toBe(0);
    expect(large.querySelector("image")?.getAttribute("href")).toBe("data:image/png;base64,65x65");
  });
  it("paints a masked pixel in the colour of the hatch", () => {
    let bytes = new Uint8ClampedArray();
    heatMapSvg(figure([Array.from({ length: 65 }, (_, n) => (n === 1 ? -Infinity : n))]), (_w, _h, pixels) => ((bytes = pixels), "data:,"));
    expect([...bytes.slice(4, 8)]).toEqual([0xcc, 0xcc, 0xcc, 255]);
    expect(bytes.length).toBe(65 * 4);
  });
  it("says which part of a matrix it shows", () => {
    const whole = figure([[1, 2]]);
    const page = parsed(heatMapSvg({ ...whole, grid: { ...whole.grid, columns: 30522, c0: 100, c1: 102 } }, paint));
    expect(page.querySelector("svg > title")?.textContent).toBe("W_Q  scores, 1 × 30522 (columns 100–101)");
    expect(titles(page)).toEqual(["0, 100: 1", "0, 101: 2"]);
  });
});

describe("bars as a file", () => {
  it("are as long as their shares, with their values in full", () => {
    const page = parsed(barsSvg({ name: "next", bars: [{ text: "a", value: 0.5, strong: true }, { text: "<b>", value: 0.25, before: 0.5 }], from: [], palette }));
    const [first, second] = [...page.querySelectorAll("rect:has(title)")].map((rect) => Number(rect.getAttribute("width")));
    expect(first! / second!).toBeCloseTo(2, 9);
    expect(titles(page)).toEqual(["a: 0.5", "<b>: 0.25"]);
  });
});

describe("a drawing of the page as a file", () => {
  it("takes its styles along, and leaves classes and data behind", async () => {
    document.body.innerHTML = `<style>.a { fill: rgb(1, 2, 3); } .gone { display: none }</style>
      <svg viewBox="0 0 40 20"><defs><marker id="tip"></marker><g id="unused"></g></defs>
      <g class="a" data-x="1" onclick="1"><path d="M0 0" marker-end="url(#tip)"/><text>a &amp; b</text></g><g class="gone"></g></svg>`;
    const page = parsed(await drawingSvg(document.querySelector("svg")!, { name: "tree <1>", from: ["model"], palette }));
    const group = [...page.querySelectorAll("svg svg > g")];
    expect(group[0]!.getAttribute("style")).toContain("fill: rgb(1, 2, 3)");
    expect([...group[0]!.attributes].map((one) => one.name)).toEqual(["style"]);
    expect(group[1]!.getAttribute("style")).toContain("display: none");
    expect(page.getElementById("tip")).not.toBeNull();
    expect(page.getElementById("unused")).toBeNull();
    expect(page.querySelector("svg svg")?.getAttribute("viewBox")).toBe("0 0 40 20");
    expect(words(page)).toEqual(["tree <1>", "a & b", "model"]);
  });
  it("writes mixed colours as every reader understands them", () => {
    expect(plainColour("color(srgb 1 0.5 0)")).toBe("#ff8000");
    expect(plainColour("color(srgb 1 0.5 0 / 0.25)")).toBe("rgba(255, 128, 0, 0.25)");
    expect(plainColour("rgb(1, 2, 3)")).toBe("rgb(1, 2, 3)");
  });
});

describe("words of a file", () => {
  it("are called by letters of any script", () => {
    expect(fileName("E scores, 11 × 11 / head 2")).toBe("e-scores-11-11-head-2");
    expect(fileName("नमस्ते ../x")).toBe("नमस्ते-x");
    expect(fileName("../..")).toBe("figure");
  });
  it("stand in as many lines as they need", () => {
    expect(lines(["aaaa", "bbbb", "cccc"], 70, 10)).toEqual(["aaaa · bbbb", "cccc"]);
  });
  it("name the checkpoint, the site, the head and the path", () => {
    const pass = { model: { name: "m", random: true }, path: "reference" } as Parameters<typeof fromWhere>[0];
    expect(fromWhere(pass, "scores", 1, 4)).toEqual(["m (random weights)", "scores", "head 2 of 4", "reference path", "clearhead"]);
    expect(fromWhere(pass, "ids", 0, 1)).not.toContain("head 1 of 1");
  });
});

describe("what is painted, as a file", () => {
  const letters = { font: "", measureText: (words: string) => ({ width: 10 * words.length }) as TextMetrics };
  it("has the lines, dots and words that a canvas was given", () => {
    const pen = new WritingPen(letters);
    Object.assign(pen, { strokeStyle: "color(srgb 1 0.5 0)", lineWidth: 2, globalAlpha: 0.5 });
    pen.beginPath();
    pen.moveTo(0, 1);
    pen.bezierCurveTo(1, 1, 2, 2, 3.14159, 4);
    pen.stroke();
    Object.assign(pen, { fillStyle: "#123456", globalAlpha: 1, font: "600 14px Inter", textAlign: "right", textBaseline: "middle" });
    pen.fillText("a<b", 10, 20, 25);
    pen.beginPath();
    pen.arc(5, 6, 2);
    pen.fill();
    const page = parsed(`<svg xmlns="http://www.w3.org/2000/svg">${pen.written}</svg>`);
    const [way, dot] = page.querySelectorAll("path");
    expect(["d", "stroke", "stroke-width", "opacity"].map((name) => way!.getAttribute(name))).toEqual(["M0,1C1,1,2,2,3.14,4", "#ff8000", "2", "0.5"]);
    expect(dot!.getAttribute("fill")).toBe("#123456");
    const said = page.querySelector("text")!;
    expect([said.textContent, said.getAttribute("text-anchor"), said.getAttribute("textLength"), said.getAttribute("y")]).toEqual(["a<b", "end", "25", "24.9"]);
  });
  it("names its lines above them", () => {
    const page = parsed(framed("<g/>", { width: 200, height: 50 }, { name: "loss", legend: [{ name: "train", colour: "#00f" }, { name: "a second, long name", colour: "#f00", dashed: true }], palette }));
    expect(words(page)).toEqual(["loss", "train", "a second, long name"]);
    expect([...page.querySelectorAll("line")].map((one) => [one.getAttribute("stroke"), one.getAttribute("stroke-dasharray")])).toEqual([["#00f", null], ["#f00", "5 3"]]);
    const heights = [...page.querySelectorAll("g")].map((one) => one.getAttribute("transform"));
    expect(heights).toContain("translate(16 74)"); // below two lines of names
  });
});
