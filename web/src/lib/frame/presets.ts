/** The lectures' pictures: what the server says of each, and the spot in the studio where one opens. */
import { get, post } from "../api/client";
import type { components } from "../api/schema";
import { given, type Given, type Spot } from "../state/place.svelte";

export type PresetCard = components["schemas"]["PresetCard"];
export type PresetOpened = components["schemas"]["PresetOpened"];

export const presets = () => get<PresetCard[]>("presets");

/** Makes its pass and measures its heads; the server keeps the pass, so asking again costs little. */
export const openPreset = (id: string) => post<PresetOpened>(`presets/${encodeURIComponent(id)}`, {});

/** What it shows; the formula by which its head is chosen stands apart. */
export function showing({ says, measure }: Pick<PresetCard, "says" | "measure">): string {
  return measure ? says.replace(`: ${measure}`, "") : says;
}

export function spotOf({ id, model, inputs, spot }: PresetOpened): Partial<Spot> {
  const cell = spot.cell ? { row: spot.cell[0], column: spot.cell[1] } : null;
  return { tab: spot.tab, model, inputs: given(inputs), step: spot.step, head: spot.head, cell, zoom: "part", more: { preset: id, ...(spot.figure ? { "a-score": spot.figure } : {}) } };
}

/** Whether what is open is still the lecture's own model and input. */
export function stillThere({ model, inputs }: Pick<PresetCard, "model" | "inputs">, now: { model: string | null; inputs: Given }): boolean {
  const wanted = given(inputs);
  const names = new Set([...Object.keys(wanted), ...Object.keys(now.inputs)]) as Set<keyof Given>;
  return model === now.model && [...names].every((name) => wanted[name] === now.inputs[name]);
}
