/** Figures over the steps: how they are grouped, thinned, read at a step and coloured. */
import { bisector } from "d3";
import type { Theme } from "../math/scales";

export type Point = [number, number];

export interface Series {
  id: string;
  name: string;
  colour: string;
  points: Point[];
  /** a figure of validation: drawn with dashes and dots */
  dashed?: boolean;
  /** how many lines of metrics a point is the mean of */
  each?: number;
}

/** Eight colours that stay apart for colour-blind eyes; a run keeps its own for as long as it is chosen. */
const COLOURS: Record<Theme, string[]> = {
  light: ["#2f5bd7", "#b9520a", "#00775a", "#9b2f88", "#776700", "#0a7799", "#b3243b", "#565c67"],
  dark: ["#8aa8ff", "#ff9a4d", "#4fcf9f", "#e58ad6", "#d9c34a", "#5ecbf0", "#ff8b96", "#b6bcc7"],
};
export const SLOTS = COLOURS.light.length;

export function slotColour(slot: number, theme: Theme): string {
  return COLOURS[theme][slot % SLOTS]!;
}

/** `valid/loss` is the loss of a part; `loss` alone is of the batch that was trained on. */
export function figureOf(name: string): { part: string; base: string } {
  const cut = name.lastIndexOf("/");
  return cut < 0 ? { part: "train", base: name } : { part: name.slice(0, cut), base: name.slice(cut + 1) };
}

const FIRST = ["loss", "accuracy", "exact_match", "masked_accuracy", "perplexity", "bits_per_byte"];
const LAST = ["rate", "norm"];

function rank(base: string): number {
  if (FIRST.includes(base)) return FIRST.indexOf(base);
  return LAST.includes(base) ? 100 + LAST.indexOf(base) : 50;
}

/** Figures that belong on one graph: the same one of training and of validation. Losses first, rates last. */
export function grouped(figures: Iterable<string>): [string, string[]][] {
  const groups = new Map<string, string[]>();
  for (const figure of [...figures].sort()) {
    const { base } = figureOf(figure);
    groups.set(base, [...(groups.get(base) ?? []), figure]);
  }
  const partOrder = (figure: string) => (figureOf(figure).part === "train" ? 0 : 1);
  for (const some of groups.values()) some.sort((a, b) => partOrder(a) - partOrder(b));
  return [...groups].sort(([a], [b]) => rank(a) - rank(b) || a.localeCompare(b));
}

/** Whether a figure spans powers of ten: shares never do. */
export function mayBeLog(base: string): boolean {
  return /loss|perplexity|norm|rate|bits/.test(base) && !/accuracy/.test(base);
}

export function isConstant(points: readonly Point[]): boolean {
  return points.length > 1 && points.every(([, y]) => y === points[0]![1]);
}

/** What a scale can show: finite numbers, above zero where it is logarithmic. */
export function drawable(points: readonly Point[], log: boolean): Point[] {
  return points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y) && (!log || y > 0));
}

/** Means of so many neighbours that at most `most` are left. */
export function thinned(points: readonly Point[], most: number): { points: Point[]; each: number } {
  const each = Math.max(1, Math.ceil(points.length / most));
  if (each === 1) return { points: [...points], each };
  const means: Point[] = [];
  for (let start = 0; start < points.length; start += each) {
    const some = points.slice(start, start + each);
    const mean = (of: 0 | 1) => some.reduce((sum, point) => sum + point[of], 0) / some.length;
    means.push([mean(0), mean(1)]);
  }
  return { points: means, each };
}

const byStep = bisector<Point, number>(([x]) => x);

/** The point whose step is nearest; points are in order. */
export function nearest(points: readonly Point[], x: number): Point | null {
  if (!points.length) return null;
  return points[byStep.center(points as Point[], x)] ?? null;
}

/** The largest step at which any series has a point, and every step once: where the pointer can stand. */
export function stopsOf(series: readonly Series[]): number[] {
  return [...new Set(series.flatMap((one) => one.points.map(([x]) => x)))].sort((a, b) => a - b);
}

export function words(base: string): string {
  return base.replaceAll("_", " ");
}
