/** Lines between two columns of tokens: which are drawn, how they run, and which one is under the pointer. */
import type { Grid } from "../../math/grid";

export interface Line {
  row: number;
  column: number;
  weight: number;
}

export interface Drawn {
  lines: Line[];
  /** how many were left out because they are too thin or too many */
  left: number;
}

/** The lines of the rows from..to that weigh at least `least`, the heaviest first, at most so many. */
export function strongest(grid: Grid, from: number, to: number, least: number, most: number): Drawn {
  const lines: Line[] = [];
  let left = 0;
  for (let row = Math.max(from, grid.r0); row < Math.min(to, grid.r1); row++) {
    const start = (row - grid.r0) * (grid.c1 - grid.c0);
    for (let column = grid.c0; column < grid.c1; column++) {
      const weight = grid.values[start + column - grid.c0]!;
      if (weight >= least && weight > 0) lines.push({ row, column, weight });
      else if (weight > 0) left++;
    }
  }
  lines.sort((a, b) => b.weight - a.weight);
  left += Math.max(0, lines.length - most);
  return { lines: lines.slice(0, most), left };
}

export interface Isolated {
  side: "row" | "column";
  place: number;
}

/** All lines of one token: out of a row, or into a column. */
export function linesOf(grid: Grid, { side, place }: Isolated): Line[] {
  const lines: Line[] = [];
  const width = grid.c1 - grid.c0;
  const [from, to] = side === "row" ? [grid.c0, grid.c1] : [grid.r0, grid.r1];
  for (let other = from; other < to; other++) {
    const [row, column] = side === "row" ? [place, other] : [other, place];
    const weight = grid.values[(row - grid.r0) * width + column - grid.c0]!;
    if (weight > 0) lines.push({ row, column, weight });
  }
  return lines;
}

/** How far down a line has come where it is a share `x` of its way across: a Bézier curve that leaves and arrives level. */
export function eased(x: number): number {
  let [low, high] = [0, 1];
  for (let n = 0; n < 30; n++) {
    const s = (low + high) / 2;
    if (1.5 * s * (1 - s) + s ** 3 < x) low = s;
    else high = s;
  }
  const s = (low + high) / 2;
  return 3 * s * s - 2 * s ** 3;
}

/** The line nearest to a point: `x` as a share of the way across, `y` in rows from the top; null beyond `reach` rows. */
export function nearest(lines: Line[], x: number, y: number, reach: number): Line | null {
  const down = eased(x);
  let best: Line | null = null;
  let least = reach;
  for (const line of lines) {
    const away = Math.abs(line.row + (line.column - line.row) * down + 0.5 - y);
    if (away < least || (away === least && best && line.weight > best.weight)) [best, least] = [line, away];
  }
  return best;
}
