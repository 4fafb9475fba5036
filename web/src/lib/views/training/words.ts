/** Training in words: changes as they are typed, times, states, how fast it goes. */
import type { Point } from "../../curves/series";
import type { JobState, MetricLines } from "./api";

/** `key=value` pairs as typed: apart by lines, or by a space in front of the next key. */
export function changesOf(text: string): string[] {
  return text.split(/\n|\s+(?=[\w.]+=)/).map((one) => one.trim()).filter(Boolean);
}

export function lasting(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 90) return `${whole} s`;
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  if (hours) return minutes ? `${hours} h ${minutes} min` : `${hours} h`;
  return rest && minutes < 10 ? `${minutes} min ${rest} s` : `${minutes} min`;
}

export function clock(seconds: number, now = Date.now() / 1000): string {
  const when = new Date(1000 * seconds);
  const time = when.toLocaleTimeString("en-GB");
  return now - seconds < 20 * 3600 ? time : `${when.toLocaleDateString("en-GB")}, ${time.slice(0, 5)}`;
}

export const STATES: Record<JobState, string> = {
  starting: "starting: no figures yet",
  running: "running",
  stopping: "stopping: it is saving its state",
  interrupted: "interrupted: it can go on",
  finished: "finished",
  failed: "failed",
};

export function isAlive(state: JobState): boolean {
  return state === "starting" || state === "running" || state === "stopping";
}

export interface Mark {
  at: number;
  step: number;
}

/** Steps a second over what was watched last; null before two marks differ, or where the run went back. */
export function pace(marks: readonly Mark[], window = 60): number | null {
  const last = marks.at(-1);
  const first = marks.find((mark) => last !== undefined && mark.at >= last.at - window);
  if (!first || !last || last.at <= first.at || last.step <= first.step) return null;
  return (last.step - first.step) / (last.at - first.at);
}

export type Curves = Record<string, Point[]>;

/** Curves with new lines behind them; what is no number is left out. */
export function withLines(curves: Curves, told: Pick<MetricLines, "lines" | "again">): Curves {
  const next: Curves = told.again ? {} : { ...curves };
  const fresh = new Set<string>();
  for (const line of told.lines) {
    const step = line.step;
    if (typeof step !== "number") continue;
    for (const [name, value] of Object.entries(line)) {
      if (name === "step" || typeof value !== "number") continue;
      if (!fresh.has(name)) next[name] = [...(next[name] ?? [])];
      fresh.add(name);
      next[name]!.push([step, value]);
    }
  }
  return next;
}

/** A figure that is a share of 1 is written in percent elsewhere; here the name decides what it is called. */
export function figureWords(name: string): string {
  const [part, base] = name.includes("/") ? name.split("/") : ["", name];
  return `${part ? `${part} ` : ""}${base!.replaceAll("_", " ")}`;
}
