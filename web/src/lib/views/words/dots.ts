/** Dot products of rows of a table. */
import { rowOf, type Grid } from "../../math/grid";

export function dot(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let sum = 0;
  for (let n = 0; n < a.length; n++) sum += a[n]! * b[n]!;
  return sum;
}

/** Of one row with every row. */
export function dotsWith(grid: Grid, row: number): number[] {
  const one = rowOf(grid, row);
  return Array.from({ length: grid.r1 - grid.r0 }, (_, n) => dot(one, rowOf(grid, n)));
}

/** The next pair when a row is clicked: it comes second, what was second comes first. */
export function nextPair([, second]: readonly [number, number], clicked: number): [number, number] {
  return [second, clicked];
}

/** The largest size of a value, or where all but one in a thousand end, if that one is more than three times as large. */
export function mostOf(values: ArrayLike<number>): number {
  const sizes = Float32Array.from(values, Math.abs).sort();
  const largest = sizes.at(-1) ?? 1;
  const usual = sizes[Math.floor(0.999 * (sizes.length - 1))] ?? largest;
  return largest > 3 * usual && usual > 0 ? usual : largest;
}

export function readPair(text: string | null, rows: number): [number, number] {
  const found = /^(\d+),(\d+)$/.exec(text ?? "");
  const pair: [number, number] = found ? [Number(found[1]), Number(found[2])] : [0, Math.min(5, rows - 1)];
  return [Math.min(pair[0], rows - 1), Math.min(pair[1], rows - 1)];
}
