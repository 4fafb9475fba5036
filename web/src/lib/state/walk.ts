/** Moving through the table of a pass: steps, parts, blocks and the cell that is looked at. */
import type { AttentionKind, Pass, RailNode, Step } from "../api/types";
import type { Cell, Window } from "../math/grid";
import { ZOOMS, type Zoom } from "./place.svelte";

export function stepAt(pass: Pass, id: string | null): Step | null {
  return pass.steps.find((step) => step.id === id) ?? pass.steps[0] ?? null;
}

export function moved(pass: Pass, step: Step, by: number): Step {
  const here = pass.steps.findIndex((one) => one.id === step.id);
  return pass.steps[Math.min(pass.steps.length - 1, Math.max(0, here + by))] ?? step;
}

export function partOf(pass: Pass, part: string): Step[] {
  return pass.steps.filter((step) => step.part === part);
}

/** All parts below a node of the rail, in order. */
export function partsOf(node: RailNode): string[] {
  return [...(node.part ? [node.part] : []), ...node.parts.flatMap(partsOf)];
}

/** The node of the rail's first level that a part belongs to. */
export function blockOf(pass: Pass, part: string): RailNode | null {
  return pass.nodes.find((node) => partsOf(node).includes(part)) ?? null;
}

export function firstStep(pass: Pass, node: RailNode): Step | null {
  const parts = partsOf(node);
  return pass.steps.find((step) => parts.includes(step.part)) ?? null;
}

/** Which attention a part belongs to: its stack and its layer. */
export function attentionOf(pass: Pass, part: string): { kind: AttentionKind; layer: number } | null {
  const found = /^(encoder|decoder)\.(\d+)(?:\.(\w+))?/.exec(part);
  if (!found) return null;
  const wanted = found[3] === "cross" ? "cross" : found[1];
  const kind = pass.attention.find((one) => one.kind === wanted) ?? pass.attention.find((one) => one.kind === found[1]);
  const layer = Number(found[2]);
  return kind && layer < kind.layers ? { kind, layer } : null;
}

export function headsOf(step: Step): number {
  return Math.max(step.result.heads, ...step.operands.map((matrix) => matrix.heads));
}

/** How much of a matrix is read at a time: all of it, but for vocabularies and very long inputs. */
const PAGE = { rows: 256, many: 1024, columns: 4096, words: 1024, lines: 4096 };

export function pageOf(step: Step, cell: Cell): Window {
  const { rows, columns } = step.result;
  const wide = columns.of === "vocabulary" ? PAGE.words : PAGE.columns;
  const high = rows.of === "pixels" ? PAGE.lines : columns.size <= PAGE.many ? PAGE.many : PAGE.rows;
  const r0 = Math.floor(cell.row / high) * high;
  const c0 = Math.floor(cell.column / wide) * wide;
  return { r0, r1: Math.min(rows.size, r0 + high), c0, c1: Math.min(columns.size, c0 + wide) };
}

/** The cell to show: the one that is asked for where it exists, else the most telling one. */
export function cellIn(pass: Pass, step: Step, asked: Cell | null): Cell {
  const { rows, columns } = step.result;
  const row = asked && asked.row < rows.size ? asked.row : telling(pass, step);
  if (asked && asked.row < rows.size && asked.column < columns.size) return asked;
  return { row, column: tellingColumn(pass, step, row) };
}

function telling(pass: Pass, step: Step): number {
  const { rows } = step.result;
  if (pass.picture && step.operation === "patches") return middlePatch(pass.picture.grid);
  if (pass.picture && step.operation === "pixels") return Math.floor(pass.picture.height / 2);
  const place = tellingPlace(pass, rows.of);
  return place !== undefined && place < rows.size && rows.of !== "dimensions" ? place : rows.size - 1;
}

/** The first blank of a text, else the last place that something is said of; what is said of the whole comes last, at place 0. */
function tellingPlace(pass: Pass, of: string): number | undefined {
  const blank = of === "tokens" ? pass.predictions.find((one) => one.of === "word") : undefined;
  return (blank ?? pass.predictions.at(-1))?.place;
}

function middlePatch([down, across]: readonly [number, number]): number {
  return Math.floor(down / 2) * across + Math.floor(across / 2);
}

function tellingColumn(pass: Pass, step: Step, row: number): number {
  const { columns } = step.result;
  if (columns.of === "vocabulary" || columns.of === "classes") {
    const fitting = pass.predictions.filter((one) => (one.of === "word" || one.of === "next") === (columns.of === "vocabulary"));
    const said = fitting.find((one) => one.place === row) ?? fitting.at(-1);
    const top = said?.top[0]?.id;
    if (top !== undefined && top < columns.size) return top;
  }
  if (step.operation === "pixels") return Math.floor(columns.size / 2);
  return columns.of === "dimensions" || columns.of === "pixels" ? 0 : Math.min(1, columns.size - 1);
}

export function zoomed(zoom: Zoom, by: number): Zoom {
  return ZOOMS[Math.min(ZOOMS.length - 1, Math.max(0, ZOOMS.indexOf(zoom) + by))]!;
}

/** The names of rows or columns, as far as there are any. */
export function labelsOf(pass: Pass, axis: { of: string; size: number; labels: string[] | null }): string[] | null {
  if (axis.labels) return axis.labels;
  if (axis.of === "patches") return patchNames(pass, axis.size);
  const tokens = pass.tokens[axis.of];
  return tokens && tokens.length === axis.size ? tokens.map((token) => token.shown) : null;
}

function patchNames(pass: Pass, size: number): string[] {
  const [, across] = pass.picture?.grid ?? [1, size];
  const extra = size - (pass.picture ? pass.picture.grid[0] * pass.picture.grid[1] : size);
  const name = (n: number) => `patch ${Math.floor(n / across) + 1},${(n % across) + 1}`;
  return Array.from({ length: size }, (_, n) => (n < extra ? "[CLS]" : name(n - extra)));
}

/** What a row or column is called: a token, a patch, a word of the vocabulary that came up, or its number. */
export function nameAt(pass: Pass, axis: { of: string; size: number; labels: string[] | null }, n: number): string {
  const label = labelsOf(pass, axis)?.[n];
  if (label !== undefined) return label;
  if (axis.of === "vocabulary") return wordOf(pass, n) ?? String(n);
  return String(n);
}

function wordOf(pass: Pass, id: number): string | null {
  for (const said of pass.predictions) for (const chance of said.top) if (chance.id === id) return chance.text;
  for (const tokens of Object.values(pass.tokens)) for (const token of tokens) if (token.id === id) return token.shown;
  return null;
}
