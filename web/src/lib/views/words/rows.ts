/** A token's row twice, as it is looked up and as it is multiplied, with the rows around it. */
import type { Source } from "../../api/source";
import type { Pass } from "../../api/types";
import { tableRow, type Side } from "./api";

export interface Row {
  id: number;
  text: string;
  values: ArrayLike<number>;
}

export interface Shown {
  id: number;
  text: string;
  /** of the table */
  rows: number;
  width: number;
  row: ArrayLike<number>;
  product: ArrayLike<number>;
  difference: number;
  /** what `product` is */
  made: string;
  around: Row[];
}

const REACH = 2;

/** The numbers of the rows to show: some before and behind, as far as there are any. */
export function window(id: number, rows: number, reach = REACH): number[] {
  const start = Math.max(0, Math.min(id - reach, rows - 2 * reach - 1));
  return Array.from({ length: Math.min(2 * reach + 1, rows) }, (_, n) => start + n);
}

export function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let most = 0;
  for (let n = 0; n < a.length; n++) most = Math.max(most, Math.abs(a[n]! - b[n]!));
  return most;
}

/** By the model's own vocabulary: the server looks up and multiplies. */
export async function fromTable(model: string, side: Side, asked: string): Promise<Shown> {
  const { id, text, rows, width, row, product, largest_difference } = await tableRow(model, side, asked);
  const around = await Promise.all(window(id, rows).map(async (n) => (n === id ? { id, text, values: row } : neighbour(model, side, n))));
  return { id, text, rows, width, row, product, difference: largest_difference, made: "one-hot times table, multiplied out", around };
}

async function neighbour(model: string, side: Side, number: number): Promise<Row> {
  const found = await tableRow(model, side, `#${number}`);
  return { id: found.id, text: found.text, values: found.row };
}

/** Where a pass looks its tokens up: the table's key and the result's. */
export function lookedUp(pass: Pass, side: Side) {
  const axis = pass.tokens.tokens ? "tokens" : side;
  const step = pass.steps.find((one) => one.operation === "lookup" && one.result.rows.of === axis && one.result.site.endsWith(".embedded"));
  const table = step?.operands.find((matrix) => matrix.kind === "weight");
  return step && table ? { axis, table, result: step.result } : null;
}

/** Without a vocabulary the open pass still has its tokens: their rows of the table, and what the pass recorded. */
export async function fromPass(source: Source, side: Side, place: number): Promise<Shown> {
  const at = lookedUp(source.pass, side);
  const tokens = at ? (source.pass.tokens[at.axis] ?? []) : [];
  const token = tokens[place];
  if (!at || !token) throw new Error("the open pass looks up no tokens");
  const wanted = window(token.id, at.table.rows.size);
  const [table, recorded] = await Promise.all([
    source.matrix(at.table.key, null, { r0: wanted[0]!, r1: wanted.at(-1)! + 1, c0: 0, c1: at.table.columns.size }),
    source.matrix(at.result.key, null, { r0: place, r1: place + 1, c0: 0, c1: at.result.columns.size }),
  ]);
  const wide = table.c1 - table.c0;
  const named = new Map(tokens.map((one) => [one.id, one.shown]));
  const around = wanted.map((id, n) => ({ id, text: named.get(id) ?? `#${id}`, values: table.values.subarray(n * wide, (n + 1) * wide) }));
  const row = around.find((one) => one.id === token.id)!.values;
  return { id: token.id, text: token.shown, rows: at.table.rows.size, width: wide, row, product: recorded.values, difference: largestDifference(row, recorded.values), made: `as the open pass recorded it, at place ${place}`, around };
}
