/** How one cell of a step's result came about, written out from the operands' rows and columns.
 *
 * `terms` are the addends (or, in a softmax, the exponentials of the row), `facts` the numbers between them and the
 * total, in the order in which they are used. `total` is computed here from what is shown; `shown` is the trace's. */
import type { Step } from "../api/types";
import { activation } from "./functions";
import { at, rowOf, type Cell, type Grid } from "./grid";

export interface Term {
  k: number;
  left: number;
  right: number | null;
  value: number;
}

export interface Fact {
  name: string;
  value: number;
  means?: string;
}

export interface Written {
  terms: Term[];
  facts: Fact[];
  total: number;
  shown: number;
}

/** What the terms are computed from. `row`, `column`: the first operand's row and the second's column, whole, where
 * only a part of them is on the screen. */
export interface Read {
  step: Step;
  operands: Grid[];
  result: Grid;
  row?: Grid;
  column?: Grid;
  heads?: Grid[];
  ids?: number[];
  picture?: { grid: readonly number[]; patch: readonly number[]; width: number; height: number };
}

type Rule = (read: Read, cell: Cell) => Omit<Written, "shown">;

function operand(read: Read, n: number): Grid {
  const found = read.operands[n];
  if (!found) throw new RangeError(`${read.step.id}: operand ${n} of ${read.step.operation} is missing`);
  return found;
}

/** An operand of one row, or of one column, holds for every row, or column. */
function spread(grid: Grid, { row, column }: Cell): number {
  return at(grid, grid.rows === 1 ? 0 : row, grid.columns === 1 ? 0 : column);
}

const product: Rule = (read, { row, column }) => {
  const [left, right, bias] = [read.row ?? operand(read, 0), read.column ?? operand(read, 1), read.operands[2]];
  const terms = Array.from({ length: left.columns }, (_, k) => {
    const [a, b] = [at(left, row, k), at(right, k, column)];
    return { k, left: a, right: b, value: a === 0 || b === 0 ? 0 : a * b };
  });
  const sum = terms.reduce((total, term) => total + term.value, 0);
  if (!bias) return { terms, facts: [], total: sum };
  const added = spread(bias, { row, column });
  return { terms, facts: [{ name: "sum", value: sum }, { name: bias.key, means: "bias", value: added }], total: sum + added };
};

const scale: Rule = (read, cell) => {
  const x = spread(operand(read, 0), cell);
  const factor = read.step.factor ?? 1;
  return { terms: [{ k: 0, left: x, right: factor, value: x * factor }], facts: [], total: x * factor };
};

const add: Rule = (read, cell) => {
  const facts = read.operands.map((grid, n) => ({ name: read.step.operands[n]?.name ?? grid.key, value: spread(grid, cell) }));
  return { terms: [], facts, total: facts.reduce((sum, fact) => sum + fact.value, 0) };
};

/** A second operand says where looking is allowed (1) or not (0); without one the result itself does. */
function allowed(read: Read, cell: Cell): boolean {
  const mask = read.operands[1];
  return mask ? spread(mask, cell) !== 0 : at(read.result, cell.row, cell.column) !== -Infinity;
}

const mask: Rule = (read, cell) => {
  const x = spread(operand(read, 0), cell);
  const open = allowed(read, cell);
  const facts = [{ name: "before", value: x }, { name: "may look", value: open ? 1 : 0 }];
  return { terms: [], facts, total: open ? x : -Infinity };
};

const softmax: Rule = (read, { row, column }) => {
  const values = rowOf(read.row ?? operand(read, 0), row);
  const x = values[column]!;
  let top = -Infinity;
  for (const value of values) if (value > top) top = value;
  if (top === -Infinity) return { terms: [], facts: [{ name: "nothing to look at", value: 0 }], total: 0 };
  const terms = Array.from(values, (value, k) => ({ k, left: value, right: null, value: Math.exp(value - top) }));
  const sum = terms.reduce((total, term) => total + term.value, 0);
  const power = Math.exp(x - top);
  const facts = [
    { name: "x", value: x },
    { name: "max of the row", value: top, means: "taken off everywhere: the shares stay, nothing overflows" },
    { name: "exp(x − max)", value: power },
    { name: "sum of the row", value: sum },
  ];
  return { terms, facts, total: power / sum };
};

export interface Moments {
  mean: number;
  variance: number;
  square: number;
}

export function moments(row: ArrayLike<number>): Moments {
  let sum = 0;
  let squares = 0;
  for (let i = 0; i < row.length; i++) {
    sum += row[i]!;
    squares += row[i]! ** 2;
  }
  const mean = sum / row.length;
  let variance = 0;
  for (let i = 0; i < row.length; i++) variance += (row[i]! - mean) ** 2;
  return { mean, variance: variance / row.length, square: squares / row.length };
}

const norm: Rule = (read, cell) => {
  const x = at(operand(read, 0), cell.row, cell.column);
  const { mean, variance } = moments(rowOf(operand(read, 0), cell.row));
  const epsilon = read.step.epsilon ?? 0;
  const normed = (x - mean) / Math.sqrt(variance + epsilon);
  const gain = read.operands[1] ? spread(read.operands[1], cell) : 1;
  const bias = read.operands[2] ? spread(read.operands[2], cell) : 0;
  const facts = [
    { name: "x", value: x },
    { name: "mean of the row", value: mean },
    { name: "variance of the row", value: variance },
    { name: "ε", value: epsilon },
    { name: "(x − mean) ÷ √(variance + ε)", value: normed },
    { name: "× gain", value: gain },
    ...(read.operands[2] ? [{ name: "+ bias", value: bias }] : []),
  ];
  return { terms: [], facts, total: normed * gain + bias };
};

const rms: Rule = (read, cell) => {
  const x = at(operand(read, 0), cell.row, cell.column);
  const { square } = moments(rowOf(operand(read, 0), cell.row));
  const epsilon = read.step.epsilon ?? 0;
  const normed = x / Math.sqrt(square + epsilon);
  const gain = read.operands[1] ? spread(read.operands[1], cell) : 1;
  const facts = [
    { name: "x", value: x },
    { name: "mean square of the row", value: square },
    { name: "ε", value: epsilon },
    { name: "x ÷ √(mean square + ε)", value: normed },
    { name: "× gain", value: gain },
  ];
  return { terms: [], facts, total: normed * gain };
};

const activate: Rule = (read, cell) => {
  const name = read.step.function;
  const x = spread(operand(read, 0), cell);
  const y = activation(name)(x);
  const facts: Fact[] = [{ name: "x", value: x }, { name: `${name}(x)`, value: y }];
  const gate = read.operands[1];
  if (!gate) return { terms: [], facts, total: y };
  const times = spread(gate, cell);
  return { terms: [], facts: [...facts, { name: `× ${read.step.operands[1]?.name ?? "gate"}`, value: times }], total: y * times };
};

const concat: Rule = (read, { row, column }) => {
  const heads = read.heads ?? read.operands;
  let offset = 0;
  for (const [head, grid] of heads.entries()) {
    if (column < offset + grid.columns) {
      const facts = [{ name: "head", value: head + 1 }, { name: "its column", value: column - offset }];
      return { terms: [], facts, total: at(grid, row, column - offset) };
    }
    offset += grid.columns;
  }
  throw new RangeError(`${read.step.id}: column ${column} lies behind the last head`);
};

const join: Rule = (read, { row, column }) => {
  let offset = 0;
  for (const [n, grid] of read.operands.entries()) {
    if (row < offset + grid.rows) {
      const facts = [{ name: `row of ${read.step.operands[n]?.name ?? grid.key}`, value: row - offset }];
      return { terms: [], facts, total: at(grid, row - offset, column) };
    }
    offset += grid.rows;
  }
  throw new RangeError(`${read.step.id}: row ${row} lies behind the last operand`);
};

/** Which row a pooling takes; null when it takes the mean of all. */
export function pooledRow({ step }: Pick<Read, "step">): number | null {
  return step.function === "mean" ? null : 0;
}

const pool: Rule = (read, { column }) => {
  const from = operand(read, 0);
  const taken = pooledRow(read);
  if (taken !== null) return { terms: [], facts: [{ name: "row", value: taken }], total: at(from, taken, column) };
  const terms = Array.from({ length: from.rows }, (_, k) => ({ k, left: at(from, k, column), right: null, value: at(from, k, column) }));
  const sum = terms.reduce((total, term) => total + term.value, 0);
  return { terms, facts: [{ name: "sum", value: sum }, { name: "÷ rows", value: from.rows }], total: sum / from.rows };
};

/** Where the table is among the operands of a lookup: the numbers, if they are an operand too, are one column. */
export function tableOf(read: Pick<Read, "step">): number {
  const { operands } = read.step;
  const named = operands.findIndex((m) => m.kind === "weight" || m.rows.of === "vocabulary");
  return named >= 0 ? named : operands.length - 1;
}

/** The number that a lookup takes for a row of its result. */
export function idOf(read: Read, row: number): number {
  const table = tableOf(read);
  const numbers = read.operands.find((_, n) => n !== table);
  if (numbers) return numbers.columns === 1 ? at(numbers, row, 0) : at(numbers, 0, row);
  return read.ids?.[row] ?? row;
}

const lookup: Rule = (read, { row, column }) => {
  const id = idOf(read, row);
  return { terms: [], facts: [{ name: "number", value: id }], total: at(operand(read, tableOf(read)), id, column) };
};

/** Which pixel a patch's j-th number is: channel by channel, each from left to right and down. */
export function pixelOf(read: Read, { row, column }: Cell): { channel: number; y: number; x: number } {
  const { grid, patch, width, height } = read.picture!;
  const [down, across] = patch as [number, number];
  const [gridRows, gridColumns] = grid as [number, number];
  const [stepDown, stepAcross] = [stride(height, down, gridRows), stride(width, across, gridColumns)];
  const inside = column % (down * across);
  return {
    channel: Math.floor(column / (down * across)),
    y: Math.floor(row / gridColumns) * stepDown + Math.floor(inside / across),
    x: (row % gridColumns) * stepAcross + (inside % across),
  };
}

function stride(side: number, patch: number, count: number): number {
  return count > 1 ? (side - patch) / (count - 1) : patch;
}

const patches: Rule = (read, cell) => {
  const { channel, y, x } = pixelOf(read, cell);
  const pixels = operand(read, 0);
  const facts = [{ name: "channel", value: channel }, { name: "y", value: y }, { name: "x", value: x }];
  return { terms: [], facts, total: at(pixels, channel * read.picture!.height + y, x) };
};

const choose: Rule = (read, { row }) => {
  const values = rowOf(read.row ?? operand(read, 0), row);
  let best = 0;
  for (let j = 1; j < values.length; j++) if (values[j]! > values[best]!) best = j;
  return { terms: [], facts: [{ name: read.step.operands[0]?.name ?? "largest", value: values[best]! }], total: best };
};

const asItIs: Rule = (read, { row, column }) => ({ terms: [], facts: [], total: at(read.result, row, column) });

export const RULES: Record<Step["operation"], Rule> = {
  tokens: asItIs, pixels: asItIs, lookup, patches, product, scale, add, mask, softmax, norm, rms,
  activation: activate, concat, join, pool, choose,
};

export function written(read: Read, cell: Cell): Written {
  return { ...RULES[read.step.operation](read, cell), shown: at(read.result, cell.row, cell.column) };
}

/** How far apart what is written out and what was computed are, relative to the larger of 1 and the value. */
export function apart({ total, shown }: Pick<Written, "total" | "shown">): number {
  if (total === shown) return 0;
  return Math.abs(total - shown) / Math.max(1, Math.abs(shown));
}
