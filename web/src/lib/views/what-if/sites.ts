/** The activations that can be patched: what the steps of a pass make, the same step of every block as one family. */
import type { Axis, Pass, Step } from "../../api/types";

export interface Member {
  layer: number | null;
  site: string;
  rows: Axis;
}

export interface Family {
  id: string;
  /** which part of the model it belongs to */
  group: string;
  name: string;
  members: Member[];
}

/** Numbers of tokens, pixels, and what the answer is chosen from, are no activations. */
const LEFT_OUT = new Set<Step["operation"]>(["tokens", "pixels", "patches", "choose"]);

const PARTS: Record<string, string> = { attention: "self-attention", cross: "cross-attention", feed_forward: "feed-forward", norm: "final norm" };

export function families(pass: Pick<Pass, "steps">): Family[] {
  const found = new Map<string, Family>();
  const seen = new Set<string>();
  for (const step of pass.steps) {
    const { site, kind, rows } = step.result;
    if (kind !== "site" || LEFT_OUT.has(step.operation) || seen.has(site)) continue;
    seen.add(site);
    const block = /\.blocks\.(\d+)\./.exec(site);
    const id = site.replace(/\.blocks\.\d+\./, ".blocks.*.");
    const family = found.get(id) ?? { id, group: groupOf(step), name: step.short, members: [] };
    family.members.push({ layer: block ? Number(block[1]) : null, site, rows });
    found.set(id, family);
  }
  return [...found.values()];
}

function groupOf(step: Step): string {
  const [stack, layer, part] = step.part.split(".");
  if (layer === undefined || !/^\d+$/.test(layer)) return step.part.split(".").map((one) => PARTS[one] ?? one).join(", ");
  return `${stack} blocks, ${PARTS[part ?? ""] ?? part ?? "all"}`;
}

export function grouped(all: Family[]): { group: string; families: Family[] }[] {
  const names = [...new Set(all.map((one) => one.group))];
  return names.map((group) => ({ group, families: all.filter((one) => one.group === group) }));
}

export function familyOf(all: Family[], site: string): Family | undefined {
  return all.find((family) => family.members.some((member) => member.site === site));
}
