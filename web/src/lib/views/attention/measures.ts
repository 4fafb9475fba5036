/** The figure under each head: how far it looks, or a score of what it does. */
import type { Summary } from "./api";

export interface Spot {
  layer: number;
  head: number;
}

export interface Measure {
  name: string;
  title: string;
  formula: string;
  means: string;
  unit: string;
  /** the most telling head scores lowest */
  lowest: boolean;
  values: (number[] | null)[] | null;
  best: (Spot & { score: number }) | null;
}

const TITLES: Record<string, string> = { previous: "previous token", next: "next token", first: "first token", self: "itself", same: "same token", induction: "induction", entropy: "entropy" };

const FAR = {
  tokens: { formula: "mean over i of sum over j of A[i, j] |i - j|", means: "small: looks near by; large: looks far away" },
  pixels: { formula: "mean over patches i of sum over j of A[i, j] |centre i - centre j| / sum over j of A[i, j]", means: "small: looks near by; large: looks across the picture ([CLS], which stands nowhere, is left out)" },
};

export function measuresOf(told: Summary): Measure[] {
  const scores = told.measures.map((one) => ({
    ...one,
    title: TITLES[one.name] ?? one.name,
    unit: one.name === "entropy" ? "nats" : "",
    best: one.best && (one.lowest || one.best.score > 0) ? one.best : null,
  }));
  if (!told.distance || !told.unit) return scores;
  const distance: Measure = { name: "distance", title: "mean distance", ...FAR[told.unit], unit: told.unit === "pixels" ? "px" : "tokens", lowest: true, values: told.distance, best: null };
  return [distance, ...scores];
}

/** The one that the address names where it can be said of this input, else the first that can. */
export function measureIn(measures: Measure[], name: string | null): Measure | null {
  return measures.find((one) => one.name === name && one.values) ?? measures.find((one) => one.values) ?? null;
}

export function scoreAt(measure: Measure | null, { layer, head }: Spot): number | null {
  return measure?.values?.[layer]?.[head] ?? null;
}

/** All heads, as built or the most telling first; those without a score come last. */
export function ordered(layers: number, heads: number, measure: Measure | null): Spot[] {
  const all = Array.from({ length: layers * heads }, (_, n) => ({ layer: Math.floor(n / heads), head: n % heads }));
  if (!measure) return all;
  const sign = measure.lowest ? 1 : -1;
  const rank = (spot: Spot) => {
    const score = scoreAt(measure, spot);
    return score === null ? Infinity : sign * score;
  };
  return all.map((spot, n) => ({ spot, n, rank: rank(spot) })).sort((a, b) => (a.rank === b.rank ? a.n - b.n : a.rank < b.rank ? -1 : 1)).map(({ spot }) => spot);
}

export const called = ({ layer, head }: Spot) => `${layer + 1}.${head + 1}`;

export const GAP = 5; // between thumbnails
const FRAME = 10; // what a thumbnail's button adds to it
const FIGURE = 36; // a figure beside a thumbnail

export interface Fit {
  side: number;
  /** the figure stands beside the thumbnail, not below it */
  beside: boolean;
  /** so narrow that the head's name and its figure take a line each */
  narrow: boolean;
  width: number;
}

/** The size of thumbnails so that all of them fit a stage of this width and about this height. */
export function thumbSize(layers: number, heads: number, width: number, height: number): Fit {
  const room = Math.floor(width / heads) - GAP - FRAME;
  const narrow = room < 66;
  const fit = (side: number, beside: boolean) => ({ side, beside, narrow: narrow && !beside, width: heads * (Math.max(side, beside ? 0 : 42) + FRAME + GAP + (beside ? FIGURE : 0)) });
  const below = Math.floor(Math.min(108, room, height / layers - (narrow ? 42 : 30)));
  if (below >= 40) return fit(below, false);
  const beside = Math.floor(Math.min(44, room - FIGURE, height / layers - 12));
  return beside >= 22 ? fit(beside, true) : fit(Math.max(24, below), false);
}

/** Without the zero before the point, where there is little room: .0412. */
export function dense(text: string): string {
  return text.replace(/^(−?)0\./, "$1.");
}
