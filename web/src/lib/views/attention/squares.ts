/** Cells of an attention map: as square as the room allows, wide enough for numbers where there are few. */
import type { CellSize } from "../../marks/fit";
import { DOM_LIMIT } from "../../marks/fit";

const HEIGHT = 560;
const NAMES = 100; // room for the names of rows

/** How wide a map is at its best size. */
export function mapWidth(rows: number, columns: number): number {
  return squares(rows, columns, 640).w * columns + NAMES;
}

export function squares(rows: number, columns: number, width: number): CellSize {
  if (rows > DOM_LIMIT || columns > DOM_LIMIT) {
    const side = Math.min(8, width / columns, HEIGHT / rows);
    return { w: side, h: side };
  }
  const w = Math.min(columns <= 12 ? 40 : 31, width / columns);
  const h = Math.min(rows <= 12 ? 28 : 22, HEIGHT / rows);
  const least = Math.min(w, h);
  return w < 27 ? { w: Math.max(4, Math.floor(least)), h: Math.max(4, Math.floor(least)) } : { w: Math.floor(w), h: Math.max(13, Math.floor(h)) };
}
