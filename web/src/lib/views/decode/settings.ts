/** The controls of the tab as the address holds them, and as the server takes them: a mode takes only what is its own. */
import type { DecodeSettings } from "./api";

export const MODES = ["greedy", "sample", "beam", "compare"] as const;
export type Mode = (typeof MODES)[number];
export const MODE_NAMES: Record<Mode, string> = { greedy: "Greedy", sample: "Sampling", beam: "Beam search", compare: "Teacher forcing" };

interface Control {
  label: string;
  min: number;
  max: number;
  step: number;
  /** what is in force when the address says nothing; null: switched off, or left to the model */
  usual: number | null;
  whole: boolean;
  /** shown where the value is null */
  without?: string;
}

export const CONTROLS = {
  temperature: { label: "temperature", min: 0.1, max: 3, step: 0.05, usual: 1, whole: false },
  top_k: { label: "top-k", min: 1, max: 200, step: 1, usual: null, whole: true, without: "off" },
  top_p: { label: "top-p", min: 0.05, max: 1, step: 0.01, usual: 1, whole: false },
  seed: { label: "seed", min: 0, max: 999999, step: 1, usual: 0, whole: true },
  beams: { label: "beams", min: 1, max: 8, step: 1, usual: 4, whole: true },
  length_penalty: { label: "length penalty", min: -2, max: 3, step: 0.1, usual: 1, whole: false },
  length: { label: "tokens at most", min: 1, max: 256, step: 1, usual: null, whole: true, without: "as fits" },
} satisfies Record<string, Control>;
export type ControlName = keyof typeof CONTROLS;
export type Values = Record<ControlName, number | null>;

export const TAKES: Record<Mode, ControlName[]> = {
  greedy: ["length"],
  sample: ["temperature", "top_k", "top_p", "seed", "length"],
  beam: ["beams", "length_penalty", "length"],
  compare: [],
};

export const controlOf = (name: ControlName): Control => CONTROLS[name];

/** "d-" keeps the names of this tab apart from those of others. */
export const addressOf = (name: string) => `d-${name.replace("_", "-")}`;

/** A head of cross-attention, from 0; null: the mean over all. The address counts from 1. */
export function headIn(said: string | null, heads: number): number | null {
  const value = Number(said ?? NaN);
  return heads > 1 && Number.isInteger(value) && value >= 1 && value <= heads ? value - 1 : null;
}

export function modeOf(said: string | null): Mode {
  return MODES.find((mode) => mode === said) ?? "greedy";
}

export function mostOf(name: ControlName, mode: Mode): number {
  return name === "length" && mode === "beam" ? 128 : controlOf(name).max;
}

/** What a field or an address says, where it is a number that the control can have; else what is usual. */
export function valueOf(name: ControlName, said: string | null, mode: Mode): number | null {
  const { min, usual, whole } = controlOf(name);
  if (said === null || said.trim() === "") return usual;
  const value = Number(said);
  if (!Number.isFinite(value) || (whole && !Number.isInteger(value))) return usual;
  return Math.min(mostOf(name, mode), Math.max(min, value));
}

export function valuesOf(own: (name: string) => string | null, mode: Mode): Values {
  const pairs = (Object.keys(CONTROLS) as ControlName[]).map((name) => [name, valueOf(name, own(addressOf(name)), mode)]);
  return Object.fromEntries(pairs) as Values;
}

/** For the server: a top-p of 1 cuts nothing, and is left out like everything that is switched off. */
export function settingsOf(mode: Mode, values: Values): DecodeSettings {
  const settings: Record<string, number> = {};
  for (const name of TAKES[mode]) {
    const value = values[name];
    if (value !== null && !(name === "top_p" && value === 1)) settings[name] = value;
  }
  return settings as DecodeSettings;
}
