/** Where the reader is. The address holds all of it, so that reload, back and a link land in the same place. */
import type { Inputs } from "../api/types";
import type { Cell } from "../math/grid";

export const ZOOMS = ["model", "block", "part", "cell"] as const;
export type Zoom = (typeof ZOOMS)[number];
export const INPUT_NAMES = ["text", "second", "source", "target", "picture"] as const;
export type Given = Partial<Record<(typeof INPUT_NAMES)[number], string>>;

export interface Spot {
  tab: string;
  model: string | null;
  inputs: Given;
  step: string | null;
  head: number;
  cell: Cell | null;
  zoom: Zoom;
  theme: "light" | "dark" | null;
  present: boolean;
  /** What a view keeps for itself: read and written by `place.own`. */
  more: Record<string, string>;
}

const FIXED = new Set(["tab", "model", "step", "head", "cell", "zoom", "theme", "present", ...INPUT_NAMES]);

export function readSpot(hash: string): Spot {
  const search = new URLSearchParams(hash.replace(/^#/, ""));
  const cell = /^(\d+),(\d+)$/.exec(search.get("cell") ?? "");
  const head = Number(search.get("head") ?? "1");
  const zoom = search.get("zoom");
  const theme = search.get("theme");
  const inputs: Given = {};
  for (const name of INPUT_NAMES) if (search.has(name)) inputs[name] = search.get(name)!;
  return {
    tab: search.get("tab") ?? "step",
    model: search.get("model"),
    inputs,
    step: search.get("step"),
    head: Number.isInteger(head) && head >= 1 ? head - 1 : 0,
    cell: cell ? { row: Number(cell[1]), column: Number(cell[2]) } : null,
    zoom: ZOOMS.find((one) => one === zoom) ?? "part",
    theme: theme === "light" || theme === "dark" ? theme : null,
    present: search.get("present") === "1",
    more: Object.fromEntries([...search].filter(([name]) => !FIXED.has(name))),
  };
}

export function writeSpot(spot: Spot): string {
  const search = new URLSearchParams();
  const set = (name: string, value: string | null | undefined, unless = "") => {
    if (value !== null && value !== undefined && value !== unless) search.set(name, value);
  };
  set("tab", spot.tab, "step");
  set("model", spot.model);
  for (const name of INPUT_NAMES) set(name, spot.inputs[name]);
  set("step", spot.step);
  set("head", String(spot.head + 1), "1");
  set("cell", spot.cell && `${spot.cell.row},${spot.cell.column}`);
  set("zoom", spot.zoom, "part");
  set("theme", spot.theme);
  set("present", spot.present ? "1" : null);
  for (const [name, value] of Object.entries(spot.more)) set(name, value);
  return `#${search.toString()}`;
}

/** The inputs of a pass as the address holds them: what was not given is left out. */
export function given(inputs: Inputs | Given): Given {
  const found: Given = {};
  for (const name of INPUT_NAMES) {
    const value = inputs[name];
    if (typeof value === "string") found[name] = value;
  }
  return found;
}

/** The same for a person to read: a picture that was sent goes by its file's name. */
export function givenWords(inputs: Inputs | Given, picture?: { name?: string | null } | null): string {
  return Object.values(given(inputs)).map((one) => (one === inputs.picture ? pictureWords(one, picture) : one)).join(" → ");
}

export function pictureWords(picture: string, info?: { name?: string | null } | null): string {
  return picture.startsWith("upload/") ? (info?.name ?? "an uploaded picture") : picture;
}

class Place {
  spot = $state.raw<Spot>(readSpot(location.hash));

  constructor() {
    const read = () => (this.spot = readSpot(location.hash));
    addEventListener("popstate", read);
    addEventListener("hashchange", read);
  }

  /** Go somewhere. `quietly`: without an entry to come back to, for what follows the pointer. */
  go(change: Partial<Spot>, quietly = false) {
    const next = { ...this.spot, ...change };
    const address = writeSpot(next);
    if (address === writeSpot(this.spot)) return;
    history[quietly ? "replaceState" : "pushState"](null, "", address);
    this.spot = next;
  }

  own(name: string): string | null {
    return this.spot.more[name] ?? null;
  }

  keep(name: string, value: string | null, quietly = false) {
    const more = { ...this.spot.more };
    if (value === null) delete more[name];
    else more[name] = value;
    this.go({ more }, quietly);
  }
}

export const place = new Place();
