/** What this tab asks. Answers are kept: a plane that was computed once is there at once. */
import { ask, get, post, query } from "../../api/client";
import type { components } from "../../api/schema";
import { range, type Grid } from "../../math/grid";

type Schemas = components["schemas"];
export type WordSpace = Schemas["WordSpace"];
export type PlacedWord = Schemas["PlacedWord"];
export type NearWords = Schemas["NearWords"];
export type TableRow = Schemas["TableRow"];
export type WordContexts = Schemas["WordContexts"];
export type Side = "source" | "target";
export type Projection = WordSpace["kind"];

const MOST_KEPT = 64;
const kept = new Map<string, Promise<unknown>>();

function once<T>(name: string, make: () => Promise<T>): Promise<T> {
  const found = (kept.get(name) as Promise<T> | undefined) ?? make();
  kept.delete(name);
  kept.set(name, found);
  found.catch(() => kept.delete(name));
  for (const oldest of kept.keys()) {
    if (kept.size <= MOST_KEPT) break;
    kept.delete(oldest);
  }
  return found;
}

const base = (model: string) => `words/${encodeURIComponent(model)}`;
const read = <T>(path: string) => once(path, () => get<T>(path));

export function wordSpace(model: string, side: Side, kind: Projection, count: number, only: readonly string[]): Promise<WordSpace> {
  const named = only.map((word) => `&word=${encodeURIComponent(word)}`).join("");
  return read(`${base(model)}/space?${query({ kind, side, count: only.length ? undefined : count })}${named}`);
}

/** Of a word by its spelling, or of a token by its number written #7. */
export const neighbours = (model: string, side: Side, asked: string, count: number) => read<NearWords>(`${base(model)}/neighbours?${query({ ...(numbered(asked) ?? { word: asked }), count, side })}`);

export const analogy = (model: string, side: Side, [a, b, c]: readonly string[], count: number) => read<NearWords>(`${base(model)}/analogy?${query({ a, b, c, count, side })}`);

function numbered(asked: string): { number: string } | null {
  const number = /^#(\d+)$/.exec(asked)?.[1];
  return number === undefined ? null : { number };
}

/** A row by the token's spelling, or by its number written #7. */
export function tableRow(model: string, side: Side, asked: string): Promise<TableRow> {
  return read(`${base(model)}/row?${query({ ...(numbered(asked) ?? { token: asked }), side })}`);
}

export const contexts = (model: string, word: string, sentences: readonly string[]) =>
  once(JSON.stringify([model, word, sentences]), () => post<WordContexts>(`${base(model)}/contexts`, { word, sentences }));

export interface PositionTable {
  kind: string;
  grid: Grid;
}

export const positions = (model: string, side: Side): Promise<PositionTable> =>
  once(`${model} positions ${side}`, async () => {
    const response = await ask(`${base(model)}/positions?${query({ side })}`);
    const [rows, columns] = (response.headers.get("X-Shape") ?? "0,0").split(",").map(Number) as [number, number];
    const values = new Float32Array(await response.arrayBuffer());
    const [min, max] = range(values);
    return { kind: response.headers.get("X-Kind") ?? "", grid: { key: "positions", head: null, rows, columns, r0: 0, r1: rows, c0: 0, c1: columns, min, max, values } };
  });
