/** A matrix, or the slice of it that was asked for: `values` holds rows r0..r1 and columns c0..c1 of the whole. */
export interface Grid {
  key: string;
  head: number | null;
  rows: number;
  columns: number;
  r0: number;
  r1: number;
  c0: number;
  c1: number;
  min: number;
  max: number;
  values: Float32Array;
}

export interface Window {
  r0: number;
  r1: number;
  c0: number;
  c1: number;
}

export interface Cell {
  row: number;
  column: number;
}

/** The value in row `row` and column `column` of the whole matrix; asking outside of the slice is a mistake of ours. */
export function at(grid: Grid, row: number, column: number): number {
  if (row < grid.r0 || row >= grid.r1 || column < grid.c0 || column >= grid.c1)
    throw new RangeError(`${grid.key}: cell ${row}, ${column} is outside of the slice that was read`);
  return grid.values[(row - grid.r0) * (grid.c1 - grid.c0) + column - grid.c0]!;
}

/** A row of the slice, without copying. */
export function rowOf(grid: Grid, row: number): Float32Array {
  const width = grid.c1 - grid.c0;
  if (row < grid.r0 || row >= grid.r1) throw new RangeError(`${grid.key}: row ${row} was not read`);
  return grid.values.subarray((row - grid.r0) * width, (row - grid.r0 + 1) * width);
}

export function holds(grid: Grid, row: number, column: number): boolean {
  return row >= grid.r0 && row < grid.r1 && column >= grid.c0 && column < grid.c1;
}

/** Smallest and largest of the finite values; 0 and 0 when there are none. */
export function range(values: ArrayLike<number>): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (let i = 0; i < values.length; i++) {
    const x = values[i]!;
    if (!Number.isFinite(x)) continue;
    if (x < low) low = x;
    if (x > high) high = x;
  }
  return low > high ? [0, 0] : [low, high];
}

/** A grid of numbers that the page itself holds, such as one row taken out of another grid. */
export function gridOf(key: string, rows: number[][] | Float32Array[], head: number | null = null): Grid {
  const columns = rows[0]?.length ?? 0;
  const values = new Float32Array(rows.length * columns);
  rows.forEach((row, i) => values.set(row, i * columns));
  const [min, max] = range(values);
  return { key, head, rows: rows.length, columns, r0: 0, r1: rows.length, c0: 0, c1: columns, min, max, values };
}
