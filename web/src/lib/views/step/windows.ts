/** Cells of a step whose rows look at windows: pixels around a pixel, or the largest of some places. */
import type { Step } from "../../api/types";
import { at, type Cell } from "../../math/grid";
import { pixelOf, type Read, type Written } from "../../math/terms";

export type Window = NonNullable<Step["window"]>;
export interface Pixel {
  channel: number;
  y: number;
  x: number;
}

/** How many windows lie beside one another. */
function across({ grid, size, stride, padding }: Window): number {
  return Math.floor((grid[1] + 2 * padding - size) / stride) + 1;
}

/** The place of the first cell of a row's window; it may lie beyond the edge. */
function corner(window: Window, row: number): { y: number; x: number } {
  const wide = across(window);
  return { y: Math.floor(row / wide) * window.stride - window.padding, x: (row % wide) * window.stride - window.padding };
}

const inside = ({ grid }: Window, y: number, x: number) => y >= 0 && x >= 0 && y < grid[0] && x < grid[1];

/** Which pixel a cell of flattened patches or windows is; of a window it may lie beyond the edge. */
export function pixelAt(read: Read, cell: Cell): Pixel {
  const { window } = read.step;
  if (!window) return pixelOf(read, cell);
  const { y, x } = corner(window, cell.row);
  const within = cell.column % window.size ** 2;
  return { channel: Math.floor(cell.column / window.size ** 2), y: y + Math.floor(within / window.size), x: x + (within % window.size) };
}

/** The operand's rows that a row of a pooling looks at. */
export function rowsIn(window: Window, row: number): number[] {
  const { y, x } = corner(window, row);
  const places = Array.from({ length: window.size ** 2 }, (_, n) => [y + Math.floor(n / window.size), x + (n % window.size)] as const);
  return places.filter(([down, along]) => inside(window, down, along)).map(([down, along]) => down * window.grid[1] + along);
}

/** The one of them whose cell is largest. */
export function largestIn(read: Read, window: Window, cell: Cell): number {
  const value = (row: number) => at(read.operands[0]!, row, cell.column);
  return rowsIn(window, cell.row).reduce((best, row) => (value(row) > value(best) ? row : best));
}

/** The cell written out, as math/terms does it for the other steps. */
export function writtenIn(read: Read, window: Window, cell: Cell): Written {
  const [from, shown] = [read.operands[0]!, at(read.result, cell.row, cell.column)];
  if (read.step.operation === "pool") {
    const terms = rowsIn(window, cell.row).map((k) => ({ k, left: at(from, k, cell.column), right: null, value: at(from, k, cell.column) }));
    const row = largestIn(read, window, cell);
    return { terms, facts: [{ name: "row", value: row, means: "where the largest of them stands" }], total: at(from, row, cell.column), shown };
  }
  const { channel, y, x } = pixelAt(read, cell);
  const facts = [{ name: "channel", value: channel }, { name: "y", value: y }, { name: "x", value: x }];
  if (inside(window, y, x)) return { terms: [], facts, total: at(from, channel * window.grid[0] + y, x), shown };
  return { terms: [], facts: [...facts, { name: "beyond the edge", value: 0 }], total: 0, shown };
}
