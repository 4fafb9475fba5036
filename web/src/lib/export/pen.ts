/** Draws as a canvas does and writes an SVG: what a view paints on the screen is a file of lines and letters. */
import { framed, plainColour, type Told } from "./drawing";
import { element, escaped } from "./write";

/** What of a canvas the views use. Arcs are whole circles. */
export type Pen = Pick<
  CanvasRenderingContext2D,
  "beginPath" | "moveTo" | "lineTo" | "bezierCurveTo" | "arc" | "stroke" | "fill" | "fillRect" | "fillText" | "strokeText" | "measureText" | "strokeStyle" | "fillStyle" | "globalAlpha" | "lineWidth" | "lineCap" | "font" | "textAlign" | "textBaseline"
>;

const ANCHORS: Record<string, string> = { right: "end", end: "end", center: "middle" };
const short = (x: number) => Math.round(x * 100) / 100;

export class WritingPen implements Pen {
  strokeStyle: Pen["strokeStyle"] = "#000";
  fillStyle: Pen["fillStyle"] = "#000";
  globalAlpha = 1;
  lineWidth = 1;
  lineCap: CanvasLineCap = "butt";
  font = "10px sans-serif";
  textAlign: CanvasTextAlign = "start";
  textBaseline: CanvasTextBaseline = "alphabetic";
  private made: string[] = [];
  private way: string[] = [];

  /** measuring: a canvas that knows how wide letters are */
  constructor(private measuring: Pick<CanvasRenderingContext2D, "font" | "measureText">) {}

  get written(): string {
    return this.made.join("");
  }

  beginPath() {
    this.way = [];
  }
  moveTo(x: number, y: number) {
    this.way.push(`M${short(x)},${short(y)}`);
  }
  lineTo(x: number, y: number) {
    this.way.push(`L${short(x)},${short(y)}`);
  }
  bezierCurveTo(...to: [number, number, number, number, number, number]) {
    this.way.push(`C${to.map(short).join(",")}`);
  }
  arc(x: number, y: number, r: number) {
    const [left, right, down] = [short(x - r), short(x + r), short(y)];
    this.way.push(`M${right},${down}A${r},${r},0,1,1,${left},${down}A${r},${r},0,1,1,${right},${down}`);
  }
  stroke() {
    const more = this.lineCap === "butt" ? null : this.lineCap;
    this.put("path", { d: this.way.join(""), fill: "none", stroke: colour(this.strokeStyle), "stroke-width": this.lineWidth, "stroke-linecap": more });
  }
  fill() {
    this.put("path", { d: this.way.join(""), fill: colour(this.fillStyle) });
  }
  fillRect(x: number, y: number, width: number, height: number) {
    this.put("rect", { x, y, width, height, fill: colour(this.fillStyle) });
  }
  fillText(words: string, x: number, y: number, most?: number) {
    this.letters(words, x, y, most, { fill: colour(this.fillStyle) });
  }
  strokeText(words: string, x: number, y: number, most?: number) {
    this.letters(words, x, y, most, { fill: "none", stroke: colour(this.strokeStyle), "stroke-width": this.lineWidth, "stroke-linejoin": "round" });
  }
  measureText(words: string): TextMetrics {
    this.measuring.font = this.font;
    return this.measuring.measureText(words);
  }

  private letters(words: string, x: number, y: number, most: number | undefined, paint: Record<string, string | number>) {
    const size = Number(/([\d.]+)px/.exec(this.font)?.[1] ?? 10);
    const tight: Record<string, string | number> = most !== undefined && this.measureText(words).width > most ? { textLength: most, lengthAdjust: "spacingAndGlyphs" } : {};
    const down = this.textBaseline === "middle" ? 0.35 * size : 0;
    this.put("text", { x, y: y + down, "text-anchor": ANCHORS[this.textAlign] ?? null, style: `font: ${this.font}; white-space: pre`, ...tight, ...paint }, escaped(words));
  }

  private put(name: string, attributes: Record<string, string | number | null>, content = "") {
    this.made.push(element(name, { ...attributes, opacity: this.globalAlpha === 1 ? null : this.globalAlpha }, content));
  }
}

const colour = (style: Pen["strokeStyle"]) => plainColour(String(style));

/** What `draw` paints, in so many pixels, with what it shows and is from in words. */
export function pennedSvg(draw: (pen: Pen) => void, { width, height }: { width: number; height: number }, told: Told): string {
  const pen = new WritingPen(document.createElement("canvas").getContext("2d")!);
  draw(pen);
  const inside = element("svg", { width, height, viewBox: `0 0 ${width} ${height}`, overflow: "hidden" }, pen.written);
  return framed(inside, { width, height }, told);
}
