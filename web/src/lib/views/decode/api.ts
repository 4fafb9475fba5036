/** What this tab asks: writing as it comes, a whole search, the cross-attention of a path, taught against tested. */
import { ask, post, Refusal } from "../../api/client";
import type { components } from "../../api/schema";
import type { Inputs, Token } from "../../api/types";
import { events } from "./events";

type Schemas = components["schemas"];
export type Choice = Schemas["Choice"];
export type DecodeSettings = Schemas["DecodeSettings"];
export type DecodeWanted = Omit<Schemas["DecodeWanted"], "heads" | "layer">;
export type CrossRows = Schemas["CrossRows"];
export type Follower = Schemas["Follower"];
export type DecodeStep = Omit<Schemas["DecodeStep"], "token"> & { token: Token };
export type BeamNode = Omit<Schemas["BeamNode"], "token"> & { token: Token };
export type BeamAnswer = Omit<Schemas["BeamAnswer"], "tokens"> & { tokens: Token[] };
export type BeamTree = Omit<Schemas["BeamTree"], "nodes" | "answers"> & { nodes: BeamNode[]; answers: BeamAnswer[] };
export type Decoded = Omit<Schemas["Decoded"], "tree" | "steps" | "given" | "begin" | "tokens"> & {
  tree: BeamTree | null; steps: DecodeStep[]; given: Token[]; begin: Token[]; tokens: Token[];
};
type Said = { token: Token; probability: number };
export type ModePlace = { true: Token; forced: Said & { true_probability: number }; free: (Said & { cached: number }) | null };
export type DecodeModes = Omit<Schemas["DecodeModes"], "places" | "given" | "begin"> & { places: ModePlace[]; given: Token[]; begin: Token[] };

export const search = (wanted: DecodeWanted, signal?: AbortSignal) => post<Decoded>("decode", wanted, signal);

const KEPT = 64;
const rows = new Map<string, Promise<CrossRows>>();

/** A path's row and its grid ask for the same numbers, and going back to a node asks again: the last answers are kept. */
export function crossOf(model: string, inputs: Partial<Inputs>, tokens: number[], layer: number | null, heads: boolean): Promise<CrossRows> {
  const wanted = { model, inputs, tokens, layer, heads };
  const name = JSON.stringify(wanted);
  const found = rows.get(name) ?? post<CrossRows>("decode/cross", wanted);
  rows.delete(name); // to the end: the oldest goes first
  rows.set(name, found);
  found.catch(() => rows.delete(name));
  if (rows.size > KEPT) rows.delete(rows.keys().next().value!);
  return found;
}

export const modesOf = (model: string, inputs: Partial<Inputs>, target: string, signal?: AbortSignal) =>
  post<DecodeModes>("decode/modes", { model, inputs, target }, signal);

/** Every token as it is written; `end` comes with what is known of the whole, its steps left out. */
export async function write(wanted: DecodeWanted, on: { step: (step: DecodeStep) => void; end: (whole: Decoded) => void }, signal: AbortSignal) {
  const token = document.querySelector<HTMLMetaElement>('meta[name="clearhead-token"]')?.content ?? "";
  const headers = { "Content-Type": "application/json", "X-Clearhead-Token": token };
  const response = await ask("decode/stream", { method: "POST", headers, body: JSON.stringify(wanted), signal });
  if (!response.body) throw new Refusal("The server sent nothing to read.", 0);
  let ended = false;
  for await (const { name, data } of events(response.body)) {
    if (name === "step") on.step(JSON.parse(data) as DecodeStep);
    else if (name === "problem") throw new Refusal((JSON.parse(data) as { problem: string }).problem, 0);
    else if (name === "end") {
      ended = true;
      on.end(JSON.parse(data) as Decoded);
    }
  }
  if (!ended) throw new Refusal("The server stopped in the middle of the text. What was written until then is shown.", 0);
}
