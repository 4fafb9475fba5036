/** A heat map as a file of its own: what the page shows of a matrix, with its names, its scale and where it is from. */
import { brief, full, three } from "../math/format";
import type { Grid } from "../math/grid";
import type { Scale } from "../math/scales";
import { element, escaped, fileName, lines, sheet, text, widthOf, type Palette } from "./write";

/** Up to so many rows and columns every cell is an element with its value; beyond, they are pixels of a picture. */
export const VECTOR_CELLS = 64;

export interface HeatFigure {
  name: string;
  means: string;
  grid: Grid;
  scale: Scale;
  cell: { w: number; h: number };
  rows: string[] | null;
  columns: string[] | null;
  /** columns that are numbered lie, names stand */
  upright: boolean;
  numbers: boolean;
  masked: (row: number, column: number, value: number) => boolean;
  band?: (column: number) => string;
  /** checkpoint, site, path: written below */
  from: string[];
  palette: Palette;
}

/** Pixels, four bytes each, as the address of a PNG. */
export type Paint = (width: number, height: number, pixels: Uint8ClampedArray<ArrayBuffer>) => string;

const EDGE = 16;
const [NAMES, SMALL] = [11, 10];
const LEAST_CELL = 9;
const LONGEST = 18;

interface Laid extends HeatFigure {
  wide: number;
  high: number;
  left: number;
  top: number;
  hatch: string;
  ramp: string;
}

export function heatMapSvg(figure: HeatFigure, paint: Paint): string {
  const { grid, palette } = figure;
  const [wide, high] = [grid.c1 - grid.c0, grid.r1 - grid.r0];
  const vector = wide <= VECTOR_CELLS && high <= VECTOR_CELLS;
  const cell = vector ? { w: Math.max(LEAST_CELL, figure.cell.w), h: Math.max(LEAST_CELL, figure.cell.h) } : figure.cell;
  const own = fileName(`${figure.name} ${grid.key} ${grid.head ?? ""}`);
  const laid: Laid = {
    ...figure, cell, wide, high, left: EDGE + roomFor(figure.rows, grid.r0, grid.r1), top: topOf(figure), hatch: `hatch-${own}`, ramp: `ramp-${own}`,
  };
  const width = Math.max(laid.left + wide * cell.w, EDGE + widthOf(heading(figure), 12), 340) + EDGE;
  const below = laid.top + high * cell.h + 20;
  const said = lines(figure.from, width - 2 * EDGE, SMALL);
  const foot = said.map((line, n) => text(line, { x: EDGE, y: below + 18 + n * 14, "font-size": SMALL, fill: palette.faint })).join("");
  const body = defined(laid) + title(figure) + bands(laid) + names(laid) + (vector ? cells(laid) : pixels(laid, paint)) + legend(laid, below) + foot;
  return sheet({ name: heading(figure), width, height: below + 18 + said.length * 14, body, palette });
}

function heading({ name, means, grid }: HeatFigure): string {
  return `${name}  ${means}, ${grid.rows} × ${grid.columns}${shownOf(grid)}`;
}

function shownOf({ rows, columns, r0, r1, c0, c1 }: Grid): string {
  const parts = [r1 - r0 < rows ? `rows ${r0}–${r1 - 1}` : "", c1 - c0 < columns ? `columns ${c0}–${c1 - 1}` : ""].filter(Boolean);
  return parts.length ? ` (${parts.join(", ")})` : "";
}

function title(figure: HeatFigure): string {
  const [main, below, rest] = /^([^_]+)_([^_ᵀ']+)(.*)$/.exec(figure.name)?.slice(1) ?? [figure.name, "", ""];
  const sub = below ? `<tspan font-size="9" dy="3">${escaped(below)}</tspan><tspan dy="-3">${escaped(rest!)}</tspan>` : "";
  const told = `<tspan dx="10" font-weight="400" font-size="12" fill="${figure.palette.soft}">${escaped(heading(figure).slice(figure.name.length + 2))}</tspan>`;
  return element("text", { x: EDGE, y: EDGE + 10, "font-size": 13, "font-weight": 600 }, escaped(main!) + sub + told);
}

function clipped(name: string): string {
  const letters = [...name];
  return letters.length > LONGEST ? `${letters.slice(0, LONGEST - 1).join("")}…` : name;
}

function roomFor(labels: string[] | null, from: number, to: number): number {
  if (!labels) return 0;
  return 8 + Math.max(0, ...labels.slice(from, to).map((label) => widthOf(clipped(label), NAMES)));
}

function topOf({ columns, upright, grid, band }: HeatFigure): number {
  const start = EDGE + 24 + (band ? 5 : 0);
  if (!columns) return start;
  return start + (upright ? roomFor(columns, grid.c0, grid.c1) : 15);
}

function defined({ scale, palette, hatch, ramp }: Laid): string {
  const stripes = element("rect", { width: 5, height: 5, fill: palette.mask1 }) + element("rect", { width: 2, height: 5, fill: palette.mask2 });
  const pattern = element("pattern", { id: hatch, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, stripes);
  const stops = [0, 0.25, 0.5, 0.75, 1].map((t) => element("stop", { offset: t, "stop-color": scale.css(scale.low + t * (scale.high - scale.low)) })).join("");
  return element("defs", {}, pattern + element("linearGradient", { id: ramp }, stops));
}

function bands({ band, grid, cell, wide, left, top }: Laid): string {
  if (!band) return "";
  return Array.from({ length: wide }, (_, j) => element("rect", { x: left + j * cell.w, y: top - 5, width: cell.w - 1, height: 3, fill: band(grid.c0 + j) })).join("");
}

function names({ rows, columns, grid, cell, wide, high, left, top, upright, palette, band }: Laid): string {
  const everyRow = Math.max(1, Math.ceil(11 / cell.h));
  const everyColumn = Math.max(1, Math.ceil((upright ? 11 : 18) / cell.w));
  const style = { "font-size": NAMES, fill: palette.soft };
  const made: string[] = [];
  for (let i = 0; rows && i < high; i += everyRow) {
    made.push(text(clipped(rows[grid.r0 + i] ?? ""), { ...style, x: left - 6, y: top + (i + 0.5) * cell.h + 4, "text-anchor": "end" }));
  }
  for (let j = 0; columns && j < wide; j += everyColumn) {
    const [x, y] = [left + (j + 0.5) * cell.w, top - (band ? 10 : 5)];
    const place = upright ? { x: x + 4, y, transform: `rotate(-90 ${x + 4} ${y})` } : { x, y, "text-anchor": "middle" };
    made.push(text(clipped(columns[grid.c0 + j] ?? ""), { ...style, ...place }));
  }
  return made.join("");
}

function cells(laid: Laid): string {
  const { grid, scale, cell, wide, high, left, top, masked, hatch } = laid;
  const gap = Math.min(cell.w, cell.h) >= 10 ? 1 : 0;
  const made: string[] = [];
  for (let n = 0; n < wide * high; n++) {
    const [row, column, value] = [grid.r0 + Math.floor(n / wide), grid.c0 + (n % wide), grid.values[n]!];
    const hidden = masked(row, column, value);
    const [x, y] = [left + (column - grid.c0) * cell.w, top + (row - grid.r0) * cell.h];
    const box = { x, y, width: cell.w - gap, height: cell.h - gap, rx: gap ? 2 : null, fill: hidden ? `url(#${hatch})` : scale.css(value) };
    const told = `${laid.rows?.[row] ?? row}, ${laid.columns?.[column] ?? column}: ${hidden ? "masked" : full(value)}`;
    made.push(element("rect", box, `<title>${escaped(told)}</title>`));
    if (laid.numbers && !hidden) made.push(number(laid, value, x + (cell.w - gap) / 2, y + (cell.h - gap) / 2));
  }
  return made.join("");
}

function number({ scale, cell }: Laid, value: number, x: number, y: number): string {
  const size = cell.w >= 40 ? 12 : cell.w >= 34 ? 11 : 10;
  const written = scale.colouring === "plain" ? String(value) : brief(value, scale.high);
  return text(written, { x, y: y + size * 0.36, "text-anchor": "middle", "font-size": size, fill: scale.ink(value), "pointer-events": "none" });
}

function pixels({ grid, scale, cell, wide, high, left, top, masked, palette }: Laid, paint: Paint): string {
  const bytes = new Uint8ClampedArray(wide * high * 4);
  const hatch = triple(palette.mask2);
  for (let n = 0; n < wide * high; n++) {
    const x = grid.values[n]!;
    bytes.set([...(masked(grid.r0 + Math.floor(n / wide), grid.c0 + (n % wide), x) ? hatch : scale.triple(x)), 255], n * 4);
  }
  const style = cell.w >= 1 && cell.h >= 1 ? "image-rendering: pixelated" : null;
  return element("image", { x: left, y: top, width: wide * cell.w, height: high * cell.h, preserveAspectRatio: "none", style, href: paint(wide, high, bytes) });
}

function triple(colour: string): [number, number, number] {
  const plain = /^#(\w)(\w)(\w)$/.exec(colour)?.slice(1).map((one) => one + one) ?? /^#(\w\w)(\w\w)(\w\w)$/.exec(colour)?.slice(1) ?? ["80", "80", "80"];
  return plain.map((one) => parseInt(one, 16)) as [number, number, number];
}

function legend({ grid, scale, palette, ramp }: Laid, y: number): string {
  const style = { y, "font-size": NAMES, fill: palette.soft };
  if (scale.colouring === "plain") return text(`${grid.min} to ${grid.max}`, { ...style, x: EDGE });
  const [low, high] = [three(scale.low), three(scale.high)];
  const start = EDGE + widthOf(low, NAMES) + 4;
  const told = `${high}   ${scale.shared ? "shared scale" : "this matrix"}: ${three(grid.min)} to ${three(grid.max)}`;
  return (
    text(low, { ...style, x: EDGE }) +
    element("rect", { x: start, y: y - 8, width: 76, height: 7, rx: 3.5, fill: `url(#${ramp})` }) +
    text(told, { ...style, x: start + 84, style: "white-space: pre" })
  );
}
