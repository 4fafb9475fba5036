/** Sizes of cells: numbers are readable where there is room, nothing ever pushes the page wider than it is. */
export const DOM_LIMIT = 64;

export interface CellSize {
  w: number;
  h: number;
}

export function showsCells(rows: number, columns: number): boolean {
  return rows <= DOM_LIMIT && columns <= DOM_LIMIT;
}

/** As wide as `best`, or as the room allows; few columns may be wider, to be read from afar. */
export function across(count: number, room: number, best = bestOf(count)): number {
  const size = Math.min(best, room / Math.max(1, count));
  return size >= 8 ? Math.floor(size) : size;
}

export function bestOf(count: number): number {
  if (count > DOM_LIMIT) return 8;
  return count <= 8 ? 44 : count <= 12 ? 36 : 31;
}

/** Rows keep a height at which their labels can be read, up to 64 of them; then they share the room. */
export function down(count: number, best = 26, room = 520): number {
  if (count <= 8) return best + 4;
  if (count <= 14) return best;
  if (count <= 22) return Math.min(best, 20);
  if (count <= DOM_LIMIT) return Math.min(best, 14);
  return Math.max(0.5, Math.min(8, room / count));
}

const LETTER = 6.9;

export function labelWidth(labels: readonly string[] | null, most = 92): number {
  if (!labels) return 0;
  let longest = 0;
  for (const label of labels) longest = Math.max(longest, label.length);
  return Math.min(most, Math.max(24, Math.ceil(longest * LETTER) + 14));
}

export function gapOf(size: CellSize): number {
  return Math.min(size.w, size.h) >= 10 ? 1 : 0;
}
