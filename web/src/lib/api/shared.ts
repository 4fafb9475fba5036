/** A pass inside the page itself: what a shared file carries instead of a server. */
import { range, type Grid, type Window } from "../math/grid";
import { LeftOut, Refusal } from "./client";
import type { Source, Thumbnails } from "./source";
import type { AttentionKind, Pass } from "./types";

interface Packed {
  rows: number;
  columns: number;
  dtype: "float32" | "float16";
  data: string;
}

export interface SharedDocument {
  format: number;
  pass: Pass;
  matrices: Record<string, Packed>;
  left_out: { key: string; site: string; why: string }[];
  digits: "float32" | "float16";
  notes: string[];
  picture: string | null;
}

const FORMAT = 1;
const SMALL = 32;

/** The document that this page carries, if it is a shared one. */
export function sharedDocument(): SharedDocument | null {
  const element = document.getElementById("clearhead-shared");
  if (!element?.textContent) return null;
  const found = JSON.parse(element.textContent) as SharedDocument;
  if (found.format !== FORMAT) throw new Refusal(`This page holds format ${found.format} of a pass, and it reads ${FORMAT}.`, 0);
  document.getElementById("clearhead-shared-notes")?.remove(); // the frame says them
  if (element.dataset.at && !location.hash) location.replace(element.dataset.at); // where the reader was who shared it
  return found;
}

/** A 16-bit number by its bits: sign, five bits of exponent, ten of fraction. */
export function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

async function unpacked({ dtype, data }: Packed): Promise<Float32Array> {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(plain).arrayBuffer();
  return dtype === "float32" ? new Float32Array(buffer) : Float32Array.from(new Uint16Array(buffer), half);
}

export class PageSource implements Source {
  readonly pass: Pass;
  private whole = new Map<string, Promise<Grid>>();

  constructor(readonly inside: SharedDocument) {
    this.pass = inside.pass;
  }

  async matrix(key: string, head: number | null, window: Partial<Window> = {}): Promise<Grid> {
    const turned = key.endsWith(".T");
    const name = `${turned ? key.slice(0, -2) : key}|${head ?? 0}`;
    const grid = await this.read(name);
    return cut(turned ? turnedRound(grid) : grid, key, head, window);
  }

  private read(name: string): Promise<Grid> {
    const found = this.whole.get(name) ?? this.unpack(name);
    this.whole.set(name, found);
    return found;
  }

  private async unpack(name: string): Promise<Grid> {
    const packed = this.inside.matrices[name];
    const key = name.slice(0, name.lastIndexOf("|"));
    if (!packed) throw new LeftOut(this.missing(key));
    const values = await unpacked(packed);
    const [min, max] = range(values);
    return { key, head: null, rows: packed.rows, columns: packed.columns, r0: 0, r1: packed.rows, c0: 0, c1: packed.columns, min, max, values };
  }

  private missing(key: string): string {
    const out = this.inside.left_out.find((one) => one.key === key);
    return `${out?.site ?? key} is not in this page${out ? `: ${out.why}` : ""}. Open the model in the studio to see this step whole.`;
  }

  async thumbnails(kind: AttentionKind["kind"]): Promise<Thumbnails> {
    const at = this.pass.attention.find((one) => one.kind === kind);
    if (!at) throw new Refusal("there is no such attention", 0);
    const rows = Math.min(SMALL, at.rows.size);
    const columns = Math.min(SMALL, at.columns.size);
    const values = new Float32Array(at.layers * at.heads * rows * columns).fill(NaN);
    const name = kind === "cross" ? (layer: number) => `decoder.blocks.${layer}.cross` : (layer: number) => `${kind}.blocks.${layer}.attention`;
    for (let n = 0; n < at.layers * at.heads; n++) {
      const key = `site:${name(Math.floor(n / at.heads))}.weights|${n % at.heads}`;
      if (key in this.inside.matrices) values.set(shrunk(await this.read(key), rows, columns), n * rows * columns);
    }
    return { layers: at.layers, heads: at.heads, rows, columns, values };
  }

  picture(): string {
    return this.inside.picture ?? "";
  }
}

export function turnedRound(grid: Grid): Grid {
  const values = new Float32Array(grid.values.length);
  for (let i = 0; i < grid.rows; i++) for (let j = 0; j < grid.columns; j++) values[j * grid.rows + i] = grid.values[i * grid.columns + j]!;
  return { ...grid, rows: grid.columns, columns: grid.rows, r1: grid.columns, c1: grid.rows, values };
}

export function cut(grid: Grid, key: string, head: number | null, { r0 = 0, r1 = grid.rows, c0 = 0, c1 = grid.columns }: Partial<Window>): Grid {
  if (r0 === 0 && c0 === 0 && r1 === grid.rows && c1 === grid.columns) return { ...grid, key, head };
  const values = new Float32Array((r1 - r0) * (c1 - c0));
  for (let row = r0; row < r1; row++) values.set(grid.values.subarray(row * grid.columns + c0, row * grid.columns + c1), (row - r0) * (c1 - c0));
  return { ...grid, key, head, r0, r1, c0, c1, values };
}

/** Averaged down to so many rows and columns. */
function shrunk(grid: Grid, rows: number, columns: number): Float32Array {
  const sums = new Float32Array(rows * columns);
  const counts = new Float32Array(rows * columns);
  grid.values.forEach((x, n) => {
    const row = Math.floor((Math.floor(n / grid.columns) * rows) / grid.rows);
    const to = row * columns + Math.floor(((n % grid.columns) * columns) / grid.columns);
    sums[to] = sums[to]! + x;
    counts[to] = counts[to]! + 1;
  });
  return sums.map((sum, n) => sum / counts[n]!);
}
