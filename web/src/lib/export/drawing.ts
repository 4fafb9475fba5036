/** An SVG that stands on the page, as a file of its own: styles from style sheets are written onto its elements. */
import { element, escaped, lines, widthOf, type Palette } from "./write";

/** Handed down to what is inside, so written only where it changes. */
const INHERITED = [
  "fill", "fill-opacity", "fill-rule", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "color", "font-family", "font-size",
  "font-style", "font-weight", "font-variant-numeric", "letter-spacing", "text-anchor", "dominant-baseline", "visibility", "paint-order", "writing-mode", "direction",
];
const OWN: Record<string, string> = { opacity: "1", display: "inline", "mix-blend-mode": "normal", "stop-color": "rgb(0, 0, 0)", "stop-opacity": "1", "unicode-bidi": "normal" };
const BLOCKS = new Set(["inline", "block", "flex", "grid", "inline-block"]); // the same to an SVG, unlike none
const PAINTS = new Set(["fill", "stroke", "color", "stop-color"]);
const LEFT_BEHIND = /^(class|tabindex|role|style|id$|aria-|data-|on)/;
const SVG = "http://www.w3.org/2000/svg";

/** `color(srgb 1 0.5 0)`, which color-mix gives, is understood by browsers alone; #ff8000 by all. */
export function plainColour(colour: string): string {
  const found = /^color\(srgb ([\d.e+-]+) ([\d.e+-]+) ([\d.e+-]+)(?: \/ ([\d.]+))?\)$/.exec(colour);
  if (!found) return colour;
  const bytes = found.slice(1, 4).map((part) => Math.round(255 * Math.min(1, Math.max(0, Number(part)))));
  return found[4] === undefined ? `#${bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("")}` : `rgba(${bytes.join(", ")}, ${found[4]})`;
}

function styleOf(node: Element, root: boolean): string {
  const style = getComputedStyle(node);
  const outer = root || !node.parentElement ? null : getComputedStyle(node.parentElement);
  const written: string[] = [];
  const add = (name: string, value: string) => written.push(`${name}: ${PAINTS.has(name) ? plainColour(value) : value}`);
  for (const name of INHERITED) {
    const value = style.getPropertyValue(name);
    if (value && value !== outer?.getPropertyValue(name)) add(name, value);
  }
  for (const [name, usual] of Object.entries(OWN)) {
    const value = style.getPropertyValue(name);
    if (value && value !== usual && !(name === "display" && BLOCKS.has(value))) add(name, value);
  }
  return written.join("; ");
}

function restyle(from: Element, to: Element, named: Set<string>, root = true) {
  for (const { name } of [...to.attributes]) {
    const wanted = name === "id" && named.has(to.id);
    if (LEFT_BEHIND.test(name) && !wanted) to.removeAttribute(name);
  }
  const style = styleOf(from, root);
  if (style) to.setAttribute("style", style);
  const inside = [...to.children];
  [...from.children].forEach((child, n) => restyle(child, inside[n]!, named, false));
}

/** Ids that something inside points to stay. */
function pointedTo(node: Element): Set<string> {
  return new Set([...node.outerHTML.matchAll(/(?:url\((?:&quot;|["'])?#|href="#)([^)"'&]+)/g)].map((found) => found[1]!));
}

export async function embedded(address: string): Promise<string> {
  const blob = await (await fetch(address)).blob();
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}

function sizeOf(node: SVGSVGElement): { x: number; y: number; width: number; height: number } {
  const [x, y, w, h] = (node.getAttribute("viewBox") ?? "").split(/[\s,]+/).map(Number);
  if (w! > 0 && h! > 0) return { x: x!, y: y!, width: w!, height: h! };
  const box = node.getBoundingClientRect();
  const given = (name: string) => Number.parseFloat(node.getAttribute(name) ?? "");
  return { x: 0, y: 0, width: box.width || given("width") || 300, height: box.height || given("height") || 150 };
}

export interface Told {
  name: string;
  /** written below: checkpoint, site, path */
  from?: string[];
  /** lines that the page explains beside the drawing */
  legend?: Key[];
  palette: Palette;
}

export interface Key {
  name: string;
  colour: string;
  dashed?: boolean;
}

/** The drawing as it looks now, with its pictures inside, on the page's ground; what it shows and is from in words. */
export async function drawingSvg(node: SVGSVGElement, told: Told): Promise<string> {
  const copy = node.cloneNode(true) as SVGSVGElement;
  restyle(node, copy, pointedTo(node));
  for (const image of copy.querySelectorAll("image")) {
    const address = image.getAttribute("href") ?? image.getAttribute("xlink:href");
    if (address && !address.startsWith("data:")) image.setAttribute("href", await embedded(address));
  }
  const size = sizeOf(node);
  copy.setAttribute("viewBox", [size.x, size.y, size.width, size.height].join(" "));
  copy.setAttribute("width", String(size.width));
  copy.setAttribute("height", String(size.height));
  return framed(new XMLSerializer().serializeToString(copy), size, told);
}

const EDGE = 16;

/** A drawing between what it is called and where it is from. */
export function framed(inside: string, { width, height }: { width: number; height: number }, { name, from = [], legend = [], palette }: Told): string {
  const whole = Math.ceil(Math.max(width, widthOf(name, 13), 240) + 2 * EDGE);
  const keys = keysSvg(legend, whole - 2 * EDGE, palette);
  const said = lines(from, whole - 2 * EDGE, 10);
  const top = EDGE + 26 + keys.height;
  const below = top + height + 16;
  const foot = said.map((line, n) => element("text", { x: EDGE, y: below + n * 14, "font-size": 10, fill: palette.faint }, escaped(line))).join("");
  const high = Math.ceil(below + said.length * 14);
  const head = element("text", { x: EDGE, y: EDGE + 10, "font-size": 13, "font-weight": 600 }, escaped(name));
  const body = element("rect", { width: whole, height: high, fill: palette.page }) + head + element("g", { transform: `translate(${EDGE} ${EDGE + 20})` }, keys.body) + element("g", { transform: `translate(${EDGE} ${top})` }, inside) + foot;
  const attributes = { xmlns: SVG, width: whole, height: high, viewBox: `0 0 ${whole} ${high}`, role: "img", "font-family": getComputedStyle(document.body).fontFamily || null, fill: palette.ink };
  return `${element("svg", attributes, `<title>${escaped(name)}</title>${body}`)}\n`;
}

/** A line of its colour and its name for each, as many in a row as there is room for. */
function keysSvg(legend: Key[], room: number, palette: Palette): { body: string; height: number } {
  let [x, y] = [0, 0];
  const made = legend.map(({ name, colour, dashed }) => {
    const wide = 26 + widthOf(name, 11) + 16;
    if (x > 0 && x + wide > room) [x, y] = [0, y + 16];
    const line = element("line", { x1: x, x2: x + 20, y1: y + 6, y2: y + 6, stroke: plainColour(colour), "stroke-width": 2.5, "stroke-dasharray": dashed ? "5 3" : null });
    const words = element("text", { x: x + 26, y: y + 10, "font-size": 11, fill: palette.soft }, escaped(name));
    x += wide;
    return line + words;
  });
  return { body: made.join(""), height: legend.length ? y + 16 : 0 };
}
