/** What this tab asks of the server beside matrices and thumbnails. */
import { ask, get, query } from "../../api/client";
import type { components } from "../../api/schema";
import type { Grid } from "../../math/grid";
import type { Kind } from "./where";

type Schemas = components["schemas"];
export type Summary = Schemas["AttentionSummary"];
export type HeadMeasure = Schemas["HeadMeasure"];
export type Relevance = Schemas["OutcomeRelevance"];
export type LensAnswers = Schemas["LensAnswers"];
export type Answered = Schemas["Answered"];

const at = (pass: string) => `passes/${pass}`;

export const summary = (pass: string, kind: Kind, signal?: AbortSignal) => get<Summary>(`${at(pass)}/attention/${kind}/summary`, signal);

export const relevance = (pass: string, target: number | null, place: number | null, signal?: AbortSignal) =>
  get<Relevance>(`${at(pass)}/gradient-rollout?${query({ target, place })}`, signal);

export const lens = (pass: string, places: number[] | null, signal?: AbortSignal) =>
  get<LensAnswers>(`${at(pass)}/lens?${query({ places: places?.join(",") })}`, signal);

/** Of which tokens each token is made behind one layer. */
export const rollout = (pass: string, kind: Kind, layer: number, signal?: AbortSignal) =>
  numbers(`rollout, layer ${layer}`, `${at(pass)}/rollout?${query({ kind, layers: `${layer}:${layer + 1}` })}`, signal);

/** How relevant each patch is for a class, as the picture's rows and columns. */
export const relevantPatches = (pass: string, target: number | null, signal?: AbortSignal) =>
  numbers("relevance of patches", `${at(pass)}/patches?${query({ of: "relevance", target })}`, signal);

/** The picture through a head's attention, as a PNG. */
export const filteredAddress = (pass: string, layer: number, head: number) => `api/${at(pass)}/filtered?${query({ layer, head })}`;

/** An answer in binary as a grid: its last two dimensions are rows and columns. */
async function numbers(key: string, path: string, signal?: AbortSignal): Promise<Grid> {
  const response = await ask(path, { signal });
  const shape = (response.headers.get("X-Shape") ?? "").split(",").map(Number);
  const [low, high] = (response.headers.get("X-Range") ?? "nan,nan").split(",").map(Number) as [number, number];
  const [rows, columns] = shape.slice(-2) as [number, number];
  const values = new Float32Array(await response.arrayBuffer());
  const [min, max] = Number.isNaN(low) ? [0, 0] : [low, high];
  return { key, head: null, rows, columns, r0: 0, r1: rows, c0: 0, c1: columns, min, max, values };
}
