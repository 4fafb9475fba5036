/** The tabs. A view is a folder here with a `view.ts` whose default export is a `View`; nothing else needs to know it. */
import type { Component } from "svelte";
import { IN_A_FILE, inFile } from "./in-file";

export interface View {
  id: string;
  title: string;
  component: Component;
  /** what has to be open before it can be shown */
  needs: "pass" | "nothing";
  /** the model's rail to the left */
  rail?: boolean;
  /** no stage of its own: its component is a menu at the right of the tabs */
  menu?: boolean;
}

const ORDER = ["step", "attention", "what-if", "decode", "words", "training", "compare", "share"];

const found = import.meta.glob<{ default: View }>("./*/view.ts", { eager: true });

const ALL: View[] = Object.values(found)
  .map((module) => module.default)
  .filter((view) => !inFile || IN_A_FILE.has(view.id))
  .sort((a, b) => ORDER.indexOf(a.id) - ORDER.indexOf(b.id));

export const VIEWS = ALL.filter((view) => !view.menu);
export const MENUS = ALL.filter((view) => view.menu);

export function viewOf(id: string): View {
  return VIEWS.find((view) => view.id === id) ?? VIEWS[0]!;
}
