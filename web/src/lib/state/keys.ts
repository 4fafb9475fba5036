/** The keys of the page. A key that a field, a button or a matrix needs for itself is left to it. */
export interface KeyHelp {
  keys: string[];
  does: string;
}

export const KEYS: KeyHelp[] = [
  { keys: ["←", "→"], does: "previous and next step" },
  { keys: ["↑", "↓"], does: "zoom out and in: model, block, part, cell" },
  { keys: ["1", "–", "9"], does: "choose a head" },
  { keys: ["space"], does: "play the steps, and stop" },
  { keys: ["p"], does: "presentation: the stage alone, as large as the screen" },
  { keys: ["t"], does: "light or dark" },
  { keys: ["?"], does: "this list" },
  { keys: ["Tab"], does: "to the next control; into a matrix it takes one stop" },
  { keys: ["← ↑ → ↓"], does: "inside a matrix: from cell to cell; Home and End to the ends of a row; Enter chooses" },
  { keys: ["Esc"], does: "out of a matrix, a list or the presentation" },
];

export type KeyAction =
  | { do: "step"; by: number }
  | { do: "zoom"; by: number }
  | { do: "head"; head: number }
  | { do: "play" | "present" | "theme" | "help" | "escape" };

const PLAIN: Record<string, KeyAction> = {
  ArrowLeft: { do: "step", by: -1 },
  ArrowRight: { do: "step", by: 1 },
  ArrowUp: { do: "zoom", by: -1 },
  ArrowDown: { do: "zoom", by: 1 },
  " ": { do: "play" },
  p: { do: "present" },
  t: { do: "theme" },
  "?": { do: "help" },
  Escape: { do: "escape" },
};

const TYPED_IN = "input, textarea, select, [contenteditable], dialog[open], [role=grid], [role=slider], [data-own-keys]";

export function actionOf(event: KeyboardEvent): KeyAction | null {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return null;
  const target = event.target instanceof Element ? event.target : null;
  if (target?.closest(TYPED_IN)) return null;
  if (event.key === " " && target?.closest("button, a, summary")) return null;
  if (/^[1-9]$/.test(event.key)) return { do: "head", head: Number(event.key) - 1 };
  return PLAIN[event.key] ?? null;
}
