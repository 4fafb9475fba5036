/** Which runs are chosen, each with the place of its colour: a run keeps it whatever is chosen beside it. */
import { SLOTS } from "../../curves/series";

export interface Chosen {
  name: string;
  slot: number;
}

export function readChosen(text: string | null): Chosen[] | null {
  if (text === null) return null;
  const found: Chosen[] = [];
  for (const piece of text.split(",")) {
    const match = /^(\d):(.+)$/.exec(piece);
    if (!match || Number(match[1]) >= SLOTS || found.some((one) => one.slot === Number(match[1]))) continue;
    try {
      found.push({ slot: Number(match[1]), name: decodeURIComponent(match[2]!) });
    } catch {
      // a name that was cut in the address: it is left out
    }
  }
  return found;
}

export function writeChosen(chosen: readonly Chosen[]): string {
  return chosen.map((one) => `${one.slot}:${encodeURIComponent(one.name)}`).join(",");
}

/** With one more, in the first free colour; without it where it was chosen. The same list where all are taken. */
export function toggled(chosen: readonly Chosen[], name: string): Chosen[] {
  if (chosen.some((one) => one.name === name)) return chosen.filter((one) => one.name !== name);
  const free = Array.from({ length: SLOTS }, (_, n) => n).find((slot) => !chosen.some((one) => one.slot === slot));
  return free === undefined ? [...chosen] : [...chosen, { name, slot: free }];
}

interface Known {
  name: string;
  folder: string;
  data: string | null;
  task: string | null;
  curves: readonly string[];
}

/** What is compared unless something else is chosen: the largest family of runs on the same data, four at most.
 * `job`: the name of one that was looked at; then its own family, and it is the first. */
export function usual(runs: readonly Known[], job: string | null = null): Chosen[] {
  const looked = (run: Known) => job !== null && run.folder.split(/[\\/]/).at(-1) === job;
  const groups = new Map<string, Known[]>();
  for (const run of runs.filter((one) => one.curves.length)) {
    const key = `${run.task} ${run.data}`;
    groups.set(key, [...(groups.get(key) ?? []), run]);
  }
  const largest = [...groups.values()].sort((a, b) => Number(b.some(looked)) - Number(a.some(looked)) || b.length - a.length)[0] ?? [];
  return [...largest].sort((a, b) => Number(looked(b)) - Number(looked(a))).slice(0, 4).map((run, slot) => ({ name: run.name, slot }));
}

/** The figures that are drawn unless others are chosen: the loss of both parts, and the first share that all have. */
export function usualFigures(curves: readonly (readonly string[])[]): string[] {
  const all = [...new Set(curves.flat())];
  const share = all.filter((name) => /accuracy|match/.test(name) && curves.every((one) => one.includes(name))).sort((a, b) => Number(b.startsWith("valid/")) - Number(a.startsWith("valid/")));
  return [...["loss", "valid/loss"].filter((name) => all.includes(name)), ...share.slice(0, 1)];
}
