/** The tabs. A view is a folder here with a `view.ts` whose default export is a `View`; nothing else needs to know it. */
import type { Component } from "svelte";

export interface View {
  id: string;
  title: string;
  component: Component;
  /** what has to be open before it can be shown */
  needs: "pass" | "nothing";
  /** the model's rail to the left */
  rail?: boolean;
}

const ORDER = ["step", "attention", "what-if", "decode", "words", "training", "compare", "share"];

const found = import.meta.glob<{ default: View }>("./*/view.ts", { eager: true });

export const VIEWS: View[] = Object.values(found)
  .map((module) => module.default)
  .sort((a, b) => ORDER.indexOf(a.id) - ORDER.indexOf(b.id));

/** Share stands apart, at the right. */
export const AT_THE_RIGHT = new Set(["share"]);

export function viewOf(id: string): View {
  return VIEWS.find((view) => view.id === id) ?? VIEWS[0]!;
}
