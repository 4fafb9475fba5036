/** Taught against tested: what is put in, and which places stand where at a moment. */

/** A typed text cut in two for a model that goes on with one: the first half is given, the second is how it goes on. */
export function halves(text: string): { given: string; target: string } | null {
  const starts = [...text.matchAll(/\s+\S/g)].map((found) => found.index);
  if (!starts.length) return null;
  const at = starts[Math.floor(starts.length / 2)]!;
  const given = text.slice(0, at);
  return given.trim() ? { given, target: text.slice(at) } : null;
}

export type Moment = "cached" | "now" | "to come";

/** Where a place stands when the step `time` is being written. */
export function momentOf(place: number, time: number): Moment {
  return place < time ? "cached" : place === time ? "now" : "to come";
}

export const within = (said: string | null, most: number): number => {
  const value = Number(said ?? "0");
  return Number.isInteger(value) && said !== null ? Math.min(most, Math.max(0, value)) : 0;
};
