/** The tree of a beam search laid out: a column for each step, and in it the better above the worse. */
import type { BeamNode, BeamTree, Follower } from "./api";

/** The number of the beginning, which is no node of the search. */
export const ROOT = -1;

export interface Spot {
  node: number;
  step: number;
  rank: number;
  x: number;
  y: number;
}

export interface Size {
  /** between two columns, between two rows */
  dx: number;
  dy: number;
  /** of a node */
  w: number;
  h: number;
}

const MARGIN = 10;

export interface Laid {
  spots: Map<number, Spot>;
  width: number;
  height: number;
}

/** Every node's middle. The step's candidates come best first, so a rank is a place in the list. */
export function laidOut(nodes: BeamNode[], size: Size, dropped = true): Laid {
  const ranks = new Map<number, number>();
  const spots = new Map<number, Spot>();
  const put = (node: number, step: number, rank: number) =>
    spots.set(node, { node, step, rank, x: MARGIN + size.w / 2 + step * size.dx, y: MARGIN + size.h / 2 + rank * size.dy });
  put(ROOT, 0, 0);
  nodes.forEach((node, n) => {
    if (!dropped && isDropped(node)) return;
    const rank = ranks.get(node.step) ?? 0;
    ranks.set(node.step, rank + 1);
    put(n, node.step, rank);
  });
  const steps = Math.max(0, ...ranks.keys());
  const rows = Math.max(1, ...ranks.values());
  return { spots, width: 2 * MARGIN + size.w + steps * size.dx, height: 2 * MARGIN + size.h + (rows - 1) * size.dy + 18 };
}

export function isDropped(node: BeamNode): boolean {
  return node.fate === "pruned" || node.fate === "late" || node.fate === "beaten";
}

export function isComplete(node: BeamNode): boolean {
  return node.fate === "finished" || node.fate === "beaten" || node.fate === "late";
}

/** From the first token to the node. */
export function pathTo(nodes: BeamNode[], node: number): number[] {
  const path: number[] = [];
  for (let at: number | null = node; at !== null && at >= 0; at = nodes[at]?.parent ?? null) path.unshift(at);
  return path;
}

/** What the token itself was worth, given all before it. */
export function ownLogprob(nodes: BeamNode[], node: number): number {
  const { parent, logprob } = nodes[node]!;
  return logprob - (parent === null ? 0 : nodes[parent]!.logprob);
}

/** Thick where the model was sure. */
export function thickness(probability: number): number {
  return 0.9 + 5.1 * Math.min(1, Math.max(0, probability));
}

/** What stood to be chosen where the node was chosen: behind its parent, or at the beginning. */
export function chosenFrom(tree: BeamTree, node: number): Follower[] | null {
  const parent = tree.nodes[node]?.parent;
  return parent === null || parent === undefined ? tree.first : tree.nodes[parent]!.next;
}

export const behind = (tree: BeamTree, node: number): Follower[] | null => (node === ROOT ? tree.first : (tree.nodes[node]?.next ?? null));

/** The nodes that stand behind a node, best first, by their tokens. */
export function childrenOf(nodes: BeamNode[], node: number): Map<number, number> {
  const found = new Map<number, number>();
  nodes.forEach((one, n) => {
    if ((one.parent ?? ROOT) === node) found.set(one.token.id, n);
  });
  return found;
}

/** Where an arrow key leads: to what it grew from, to its best child, to the better or worse of the same step. */
export function neighbour(nodes: BeamNode[], spots: Map<number, Spot>, node: number, key: string): number | null {
  const here = spots.get(node);
  if (!here) return null;
  if (key === "ArrowLeft") return node === ROOT ? null : (nodes[node]!.parent ?? ROOT);
  const all = [...spots.values()];
  if (key === "ArrowRight") return all.filter((spot) => spot.node !== ROOT && (nodes[spot.node]!.parent ?? ROOT) === node).sort((a, b) => a.rank - b.rank)[0]?.node ?? null;
  const by = key === "ArrowUp" ? -1 : key === "ArrowDown" ? 1 : 0;
  if (by) return all.find((spot) => spot.step === here.step && spot.rank === here.rank + by)?.node ?? null;
  return key === "Home" ? ROOT : null;
}

/** A path's tokens as text, the visible spaces made spaces again. */
export function textOf(shown: string[]): string {
  return shown.join("").replaceAll("␣", " ").replaceAll("⏎", "\n").replaceAll("⇥", "\t");
}

/** As much of a token as a node has room for; the signs for spaces and lines are wide. */
export function shortened(text: string, room = 8.5): string {
  let used = 0;
  const letters = [...text];
  for (const [n, letter] of letters.entries()) {
    used += "␣⏎⇥".includes(letter) ? 1.7 : 1;
    if (used > room) return `${letters.slice(0, Math.max(1, n - 1)).join("")}…`;
  }
  return text;
}

export const FATES: Record<BeamNode["fate"], string> = {
  followed: "went on: among the best of its step",
  pruned: "dropped: others of its step were better",
  finished: "complete, and one of the answers",
  beaten: "complete, then pushed out by better answers",
  late: "complete, but not among the best of its step",
  open: "still under way when the search ended",
};
