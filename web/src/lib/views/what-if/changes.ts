/** What is changed, as a list that the address can hold and a person can read. Layers, heads and places count from 0. */
import type { AttentionKind, Change, Inputs, Pass } from "../../api/types";
import { INPUT_NAMES, type Given } from "../../state/place.svelte";

export type Stack = AttentionKind["kind"];
export const STACKS = ["encoder", "decoder", "cross"] as const;

const WRITERS: Record<Change["kind"], (change: Change) => string> = {
  "heads-off": (change) => `off:${where(change)}:${(change.heads ?? []).join(",")}`,
  temperature: (change) => `heat:${where(change)}:${change.factor}`,
  "no-positions": () => "blind",
  tokens: (change) => `put:${change.stack ?? ""}:${change.place}:${change.token}`,
  patch: (change) => `patch:${change.site}:${change.place ?? ""}:${new URLSearchParams(given(change.other ?? {}))}`,
};

const READERS: Record<string, (parts: string[]) => Change | null> = {
  off: ([at, heads]) => {
    const spot = whereIs(at);
    const listed = (heads ?? "").split(",").map(whole);
    return spot?.layer !== undefined && !listed.includes(null) ? { kind: "heads-off", ...spot, heads: listed as number[] } : null;
  },
  heat: ([at, factor]) => {
    const spot = whereIs(at);
    const times = Number(factor);
    return spot && factor && times > 0 && times < Infinity ? { kind: "temperature", ...spot, factor: times } : null;
  },
  blind: () => ({ kind: "no-positions" }),
  put: ([stack, place, token]) => {
    const [at, number] = [whole(place), whole(token)];
    if (at === null || number === null) return null;
    return stack === "" ? { kind: "tokens", place: at, token: number } : isStack(stack) ? { kind: "tokens", stack, place: at, token: number } : null;
  },
  patch: ([site, place, other]) => {
    const from = given(Object.fromEntries(new URLSearchParams(other ?? "")));
    if (!site || !Object.keys(from).length) return null;
    const at = whole(place);
    return { kind: "patch", site, ...(at === null ? {} : { place: at }), other: from };
  },
};

export function encode(changes: readonly Change[]): string {
  return changes.map((change) => WRITERS[change.kind](change)).join(";");
}

/** What the address says; what can't be read is left out. */
export function decode(text: string | null): Change[] {
  const found = (text ?? "").split(";").map((one) => {
    const [kind, ...parts] = one.split(":");
    return READERS[kind ?? ""]?.(parts) ?? null;
  });
  return found.filter((change) => change !== null);
}

function where(change: Change): string {
  return change.layer === null || change.layer === undefined ? `${change.stack}` : `${change.stack}.${change.layer}`;
}

function whereIs(text: string | undefined): { stack: Stack; layer?: number } | null {
  const [stack, layer] = (text ?? "").split(".");
  if (!isStack(stack)) return null;
  if (layer === undefined) return { stack };
  const number = whole(layer);
  return number === null ? null : { stack, layer: number };
}

function isStack(text: string | undefined): text is Stack {
  return STACKS.some((stack) => stack === text);
}

function whole(text: string | undefined): number | null {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : null;
}

function given(inputs: Partial<Inputs>): Given {
  const pairs = INPUT_NAMES.map((name) => [name, inputs[name]] as const).filter(([, value]) => typeof value === "string");
  return Object.fromEntries(pairs) as Given;
}

// ------------------------------------------------------------------------------------------------ heads

export function headsOff(changes: readonly Change[], stack: Stack, layer: number): number[] {
  return changes.find((one) => one.kind === "heads-off" && one.stack === stack && one.layer === layer)?.heads ?? [];
}

export function withHeads(changes: readonly Change[], stack: Stack, layer: number, heads: number[]): Change[] {
  const rest = changes.filter((one) => !(one.kind === "heads-off" && one.stack === stack && one.layer === layer));
  return heads.length ? [...rest, { kind: "heads-off", stack, layer, heads: [...heads].sort((a, b) => a - b) }] : rest;
}

export function toggled(changes: readonly Change[], stack: Stack, layer: number, head: number): Change[] {
  const off = headsOff(changes, stack, layer);
  return withHeads(changes, stack, layer, off.includes(head) ? off.filter((one) => one !== head) : [...off, head]);
}

// ------------------------------------------------------------------------------------------- temperature

/** The temperature of every layer; 1 where nothing is said. */
export function temperatures(changes: readonly Change[], kind: { kind: Stack; layers: number }): number[] {
  const said = changes.filter((one) => one.kind === "temperature" && one.stack === kind.kind);
  return Array.from({ length: kind.layers }, (_, layer) =>
    said.filter((one) => (one.layer ?? layer) === layer).reduce((product, one) => product * (one.factor ?? 1), 1),
  );
}

/** Of one layer, or of all (`layer` null); one change where all are alike, none where all are 1. */
export function withTemperature(changes: readonly Change[], kind: { kind: Stack; layers: number }, layer: number | null, factor: number): Change[] {
  const now = temperatures(changes, kind).map((old, n) => (layer === null || layer === n ? factor : old));
  const rest = changes.filter((one) => !(one.kind === "temperature" && one.stack === kind.kind));
  if (now.every((one) => one === now[0])) return now[0] === 1 ? rest : [...rest, { kind: "temperature", stack: kind.kind, factor: now[0]! }];
  return [...rest, ...now.flatMap((one, n): Change[] => (one === 1 ? [] : [{ kind: "temperature", stack: kind.kind, layer: n, factor: one }]))];
}

// ------------------------------------------------------------------------------------- tokens and the rest

export function withToken(changes: readonly Change[], edit: { stack?: Stack; place: number; token: number }): Change[] {
  return [...changes.filter((one) => !sameToken(one, edit)), { kind: "tokens", ...edit }];
}

function sameToken(change: Change, edit: { stack?: Stack; place: number }): boolean {
  return change.kind === "tokens" && (change.stack ?? undefined) === edit.stack && change.place === edit.place;
}

export function without(changes: readonly Change[], change: Change): Change[] {
  return changes.filter((one) => one !== change);
}

/** The changes that this pass has room for, and those that belong to another model or a longer input. */
export function fitting(changes: readonly Change[], pass: Pick<Pass, "attention" | "tokens" | "steps">): { fit: Change[]; odd: Change[] } {
  const odd = changes.filter((change) => !fits(change, pass));
  return { fit: changes.filter((change) => !odd.includes(change)), odd };
}

function fits(change: Change, pass: Pick<Pass, "attention" | "tokens" | "steps">): boolean {
  if (change.kind === "no-positions") return true;
  if (change.kind === "patch") return pass.steps.some((step) => step.result.site === change.site);
  if (change.kind === "tokens") return (change.place ?? 0) < (tokensOf(pass, change.stack ?? undefined)?.length ?? 0);
  const kind = pass.attention.find((one) => one.kind === change.stack);
  return kind !== undefined && (change.layer ?? 0) < kind.layers && (change.heads ?? []).every((head) => head < kind.heads);
}

/** The tokens that a change of kind "tokens" counts in. */
export function tokensOf(pass: Pick<Pass, "tokens">, stack: Stack | undefined) {
  return pass.tokens.tokens ?? (stack === "decoder" ? pass.tokens.target : pass.tokens.source);
}

export const NAMES: Record<Stack, string> = { encoder: "encoder", decoder: "decoder", cross: "cross-attention" };

/** A change for a person: blocks and heads count from 1 here, as everywhere on the page. */
export function inWords(change: Change, pass: Pick<Pass, "tokens" | "attention">, nameOf: (id: number) => string): string {
  const only = pass.attention.length === 1;
  const block = change.layer === null || change.layer === undefined ? "every block" : `block ${change.layer + 1}`;
  const at = only || !change.stack ? block : `${NAMES[change.stack]}, ${block}`;
  switch (change.kind) {
    case "heads-off": {
      const heads = change.heads ?? [];
      return `${heads.length === 1 ? "head" : "heads"} ${heads.map((head) => head + 1).join(", ")} off · ${at}`;
    }
    case "temperature":
      return `temperature ${change.factor} · ${at}`;
    case "no-positions":
      return "no positions";
    case "tokens": {
      const was = tokensOf(pass, change.stack ?? undefined)?.[change.place ?? 0];
      return `place ${change.place}: ${was?.shown ?? "?"} → ${nameOf(change.token ?? 0)}`;
    }
    default:
      return `${change.site}${change.place === null || change.place === undefined ? "" : `, place ${change.place}`} from “${Object.values(given(change.other ?? {})).join(" → ")}”`;
  }
}
