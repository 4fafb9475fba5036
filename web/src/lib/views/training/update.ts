/** One update: which part of a weight is on the screen, whose layer it is, and how a cell came to its new value. */
import { range, type Cell, type Grid, type Window } from "../../math/grid";
import type { StepTold, WeightNorms } from "./api";

export const BLOCK = 64; // rows and columns of a weight that the server tells at a time
export const SIZES = [8, 16, 32, 64];

export interface Place {
  row: number;
  column: number;
  size: number;
}

/** `row,column,size` of the address. Windows lie on a lattice, so that each is inside one block of the server's. */
export function windowOf(text: string | null): Place {
  const found = /^(\d{1,7}),(\d{1,7}),(\d{1,2})$/.exec(text ?? "");
  const size = found && SIZES.includes(Number(found[3])) ? Number(found[3]) : 16;
  const down = (n: string | undefined) => Math.floor(Number(n ?? 0) / size) * size;
  return { row: down(found?.[1]), column: down(found?.[2]), size };
}

/** A weight as a matrix: a vector is one row, a kernel's row is one behind the other. */
export function matrixShape(shape: readonly number[]): [number, number] {
  if (shape.length < 2) return [1, shape[0] ?? 1];
  return [shape[0]!, shape.slice(1).reduce((product, n) => product * n, 1)];
}

/** What the server is asked for: the block around a window; nothing where the weight's shape is not known yet. */
export function blockOf(place: Place, shape: readonly number[] | null): { rows: string; columns: string } | null {
  if (!shape) return null;
  const [rows, columns] = matrixShape(shape);
  const span = (n: number, size: number) => {
    const start = Math.floor(Math.min(n, size - 1) / BLOCK) * BLOCK;
    return `${start}:${Math.min(size, start + BLOCK)}`;
  };
  return { rows: span(place.row, rows), columns: span(place.column, columns) };
}

/** The cells of a window that the server's slice holds; the slice's first ones where the window lies outside of it. */
export function within(place: Place, slice: readonly [number, number, number, number]): Window {
  const [r0, r1, c0, c1] = slice;
  const start = (n: number, low: number, high: number) => (n >= low && n < high ? n : low);
  const [row, column] = [start(place.row, r0, r1), start(place.column, c0, c1)];
  return { r0: row, r1: Math.min(r1, row + place.size), c0: column, c1: Math.min(c1, column + place.size) };
}

export type Kind = "before" | "gradient" | "update" | "after";

export function gridOf(shown: StepTold["shown"], kind: Kind, window: Window): Grid {
  const [top, , left] = shown.slice;
  const rows = shown[kind].slice(window.r0 - top, window.r1 - top).map((row) => row.slice(window.c0 - left, window.c1 - left));
  const values = Float32Array.from(rows.flat());
  const [min, max] = range(values);
  return { key: `${kind}:${shown.name}`, head: null, rows: shown.rows, columns: shown.columns, ...window, min, max, values };
}

/** The cell with the largest gradient: where there is most to see. */
export function telling(gradient: Grid): Cell {
  let best = 0;
  gradient.values.forEach((x, n) => Math.abs(x) > Math.abs(gradient.values[best]!) && (best = n));
  const wide = gradient.c1 - gradient.c0;
  return { row: gradient.r0 + Math.floor(best / wide), column: gradient.c0 + (best % wide) };
}

/** Blocks are layers; what stands outside them is called by its first name. As the server groups its norms. */
export function layerOf(name: string): string {
  return /^(.*?\bblocks\.\d+)\./.exec(name)?.[1] ?? name.split(".")[0]!;
}

export interface Moved {
  before: number;
  gradient: number;
  /** what the optimiser was given: the gradient, clipped */
  given: number;
  update: number;
  after: number;
  /** - rate * decay * before */
  decay: number;
  /** what is left of the update without the decay: the optimiser's own part */
  rest: number;
  /** how AdamW made its part; null where another moved the weight */
  adam: Remembered | null;
}

export interface Remembered {
  first: number;
  second: number;
  /** divided by 1 - beta ** count: without it they would be too small at the beginning */
  mean: number;
  square: number;
  /** - rate * mean / (sqrt(square) + eps) */
  step: number;
}

/** What AdamW remembers of a cell, this gradient included, and the step that it makes of it. */
export function remembered(adam: StepTold["shown"]["adam"], rate: number, row: number, column: number): Remembered | null {
  if (!adam) return null;
  const [first, second] = [adam.first[row]![column]!, adam.second[row]![column]!];
  const mean = first / (1 - adam.betas[0] ** adam.count);
  const square = second / (1 - adam.betas[1] ** adam.count);
  return { first, second, mean, square, step: rate === 0 ? 0 : (-rate * mean) / (Math.sqrt(square) + adam.eps) };
}

export function movedAt(told: StepTold, weight: WeightNorms, cell: Cell): Moved {
  const [top, , left] = told.shown.slice;
  const at = (kind: Kind) => told.shown[kind][cell.row - top]![cell.column - left]!;
  const [before, gradient, update, after] = [at("before"), at("gradient"), at("update"), at("after")];
  const decay = weight.decay === 0 || weight.rate === 0 ? 0 : -weight.rate * weight.decay * before;
  const adam = remembered(told.shown.adam, weight.rate, cell.row - top, cell.column - left);
  return { before, gradient, given: gradient * told.clipped, update, after, decay, rest: update - decay, adam };
}
