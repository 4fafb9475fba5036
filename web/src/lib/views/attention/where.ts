/** Which head is looked at. The address already names a step and a head: the rail and this tab share them. */
import type { AttentionKind, Pass, Step } from "../../api/types";
import { attentionOf, stepAt } from "../../state/walk";

export type Kind = AttentionKind["kind"];

export interface Where {
  kind: AttentionKind;
  layer: number;
  head: number;
}

export function whereIn(pass: Pass, step: string | null, head: number): Where | null {
  const open = stepAt(pass, step);
  const found = open ? attentionOf(pass, open.part) : null;
  const kind = found?.kind ?? pass.attention[0];
  return kind ? { kind, layer: found?.layer ?? 0, head: Math.min(head, kind.heads - 1) } : null;
}

const owner = (kind: Kind, layer: number | "*") => (kind === "cross" ? `decoder.blocks.${layer}.cross` : `${kind}.blocks.${layer}.attention`);

export const siteOf = (kind: Kind, layer: number | "*") => `${owner(kind, layer)}.weights`;

/** The step that makes the weights of a layer: their matrix and their line of code. */
export function weightsStep(pass: Pass, kind: Kind, layer: number): Step | null {
  return pass.steps.find((step) => step.operation === "softmax" && step.result.site === siteOf(kind, layer)) ?? null;
}

export function maskStep(pass: Pass, kind: Kind, layer: number): Step | null {
  return pass.steps.find((step) => step.operation === "mask" && step.result.site === `${owner(kind, layer)}.masked`) ?? null;
}

const ONCE = new Set(["class", "value", "follows"]);

/** Whether the model answers once for the whole input, and not at every token. */
export function answersOnce(pass: Pass): boolean {
  return pass.picture !== null || (pass.predictions.length > 0 && pass.predictions.every((said) => ONCE.has(said.of)));
}

/** Whether the model scores words or classes at all, and not only makes vectors. */
export function scoresNothing(pass: Pass): boolean {
  return pass.predictions.length === 0;
}

/** The token or patch whose row is shown where the address names none: [CLS] of a picture, else where something is predicted. */
export function tellingRow(pass: Pass, kind: AttentionKind): number {
  const last = kind.rows.size - 1;
  if (pass.picture) return pass.picture.class_token ? 0 : Math.floor(pass.picture.grid[0] / 2) * pass.picture.grid[1] + Math.floor(pass.picture.grid[1] / 2);
  const predicted = pass.predictions.find((said) => said.of === "word") ?? (kind.rows.of === "source" ? undefined : pass.predictions.findLast((said) => said.of === "next"));
  return Math.min(last, predicted?.place ?? 1);
}

/** "3,7" as two whole numbers, where both are below the limits. */
export function pairIn(text: string | null, rows: number, columns: number): [number, number] | null {
  const found = /^(\d{1,9}),(\d{1,9})$/.exec(text ?? "");
  if (!found) return null;
  const [row, column] = [Number(found[1]), Number(found[2])];
  return row < rows && column < columns ? [row, column] : null;
}

export function numberIn(text: string | null): number | null {
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

/** The place of the largest finite value. */
export function largestAt(values: ArrayLike<number>): number {
  let best = 0;
  for (let n = 1; n < values.length; n++) if (values[n]! > values[best]! || Number.isNaN(values[best]!)) best = n;
  return best;
}

/** The largest value, one place left out: what starts as 1 at its own place would make all else pale. */
export function topWithout(values: ArrayLike<number>, own: number | null): number {
  let top = 0;
  for (let n = 0; n < values.length; n++) if (n !== own && values[n]! > top) top = values[n]!;
  return top;
}

/** How many weights a pass has: beyond some millions, going back through it takes long. */
export function weightsIn(pass: Pass): number {
  return pass.attention.reduce((sum, one) => sum + one.layers * one.heads * one.rows.size * one.columns.size, 0);
}
