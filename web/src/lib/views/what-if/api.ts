/** What this tab asks: both passes at once, and the token that a spelling stands for. */
import { get, post, query } from "../../api/client";
import type { components } from "../../api/schema";
import type { Change, Inputs } from "../../api/types";

type Schemas = components["schemas"];
export type WhatIf = Schemas["WhatIf"];
export type OutcomeChange = Schemas["OutcomeChange"];
export type StreamMoved = Schemas["StreamMoved"];

export interface Question {
  model: string;
  inputs: Inputs;
  changes: Change[];
  place: number | null;
  count: number;
}

export const whatIf = (question: Question, signal: AbortSignal) => post<WhatIf>("whatif", question, signal);

export interface Spelt {
  id: number;
  text: string;
}

/** The token that a spelling, or a number, stands for. */
export async function tokenOf(model: string, typed: string, side: "source" | "target"): Promise<Spelt> {
  const number = /^#(\d+)$/.exec(typed.trim())?.[1];
  const asked = number === undefined ? { token: typed, side } : { number, side };
  const row = await get<Schemas["TableRow"]>(`words/${encodeURIComponent(model)}/row?${query(asked)}`);
  return { id: row.id, text: row.text };
}

export const likeIt = async (model: string, word: string, side: "source" | "target", count: number): Promise<Spelt[]> =>
  (await get<Schemas["NearWords"]>(`words/${encodeURIComponent(model)}/neighbours?${query({ word, side, count })}`)).words;
