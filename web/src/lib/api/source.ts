/** Where a pass's numbers come from. The server is one source; a trace inside a shared page can be another. */
import type { Grid, Window } from "../math/grid";
import { ask, query } from "./client";
import type { AttentionKind, Pass } from "./types";

/** Small maps of all layers and heads: values[((layer * heads + head) * rows + row) * columns + column]. */
export interface Thumbnails {
  layers: number;
  heads: number;
  rows: number;
  columns: number;
  values: Float32Array;
}

export interface Source {
  readonly pass: Pass;
  matrix(key: string, head: number | null, window?: Partial<Window>): Promise<Grid>;
  thumbnails(kind: AttentionKind["kind"]): Promise<Thumbnails>;
  picture(): string;
}

const KEPT_BYTES = 96 * 2 ** 20;

function numbers(header: string | null, what: string): number[] {
  if (header === null) throw new Error(`the answer names no ${what}`);
  return header.split(",").map(Number);
}

async function floats(response: Response): Promise<Float32Array> {
  return new Float32Array(await response.arrayBuffer()); // little-endian, as every machine that runs a browser is
}

export class ServerSource implements Source {
  private kept = new Map<string, Promise<Grid>>();
  private bytes = 0;
  private maps = new Map<string, Promise<Thumbnails>>();

  constructor(readonly pass: Pass) {}

  matrix(key: string, head: number | null, window: Partial<Window> = {}): Promise<Grid> {
    const name = JSON.stringify([key, head, window.r0, window.r1, window.c0, window.c1]);
    const found = this.kept.get(name);
    if (found) {
      this.kept.delete(name); // to the end: the oldest asked for goes first
      this.kept.set(name, found);
      return found;
    }
    const asked = this.fetch(key, head, window);
    this.kept.set(name, asked);
    asked.then((grid) => this.keep(grid.values.byteLength), () => this.kept.delete(name));
    return asked;
  }

  private keep(bytes: number) {
    this.bytes += bytes;
    for (const [name, grid] of this.kept) {
      if (this.bytes <= KEPT_BYTES || this.kept.size <= 1) return;
      this.kept.delete(name);
      void grid.then((gone) => (this.bytes -= gone.values.byteLength), () => undefined);
    }
  }

  private async fetch(key: string, head: number | null, window: Partial<Window>): Promise<Grid> {
    const rows = window.r1 === undefined ? undefined : `${window.r0 ?? 0}:${window.r1}`;
    const columns = window.c1 === undefined ? undefined : `${window.c0 ?? 0}:${window.c1}`;
    const response = await ask(`passes/${this.pass.id}/matrix?${query({ key, head, rows, columns })}`);
    const [height, width] = numbers(response.headers.get("X-Shape"), "shape") as [number, number];
    const [r0, r1, c0, c1] = numbers(response.headers.get("X-Slice"), "slice") as [number, number, number, number];
    const values = await floats(response);
    const [low, high] = numbers(response.headers.get("X-Range"), "range") as [number, number];
    const [min, max] = Number.isNaN(low) ? [0, 0] : [low, high]; // nothing in it is finite
    return { key, head, rows: height, columns: width, r0, r1, c0, c1, min, max, values };
  }

  thumbnails(kind: AttentionKind["kind"]): Promise<Thumbnails> {
    const found = this.maps.get(kind) ?? this.fetchThumbnails(kind);
    this.maps.set(kind, found);
    return found;
  }

  private async fetchThumbnails(kind: AttentionKind["kind"]): Promise<Thumbnails> {
    const response = await ask(`attention/${this.pass.id}?${query({ kind })}`);
    const [layers, heads, rows, columns] = numbers(response.headers.get("X-Shape"), "shape") as [number, number, number, number];
    return { layers, heads, rows, columns, values: await floats(response) };
  }

  picture(): string {
    return `api/passes/${this.pass.id}/picture`;
  }
}
