/** Which slices of which matrices a step needs on the screen, and reading them. */
import type { Source } from "../../api/source";
import type { Matrix, Step } from "../../api/types";
import type { Cell, Grid, Window } from "../../math/grid";
import { tableOf, type Read } from "../../math/terms";
import { pageOf } from "../../state/walk";

export interface Loaded extends Read {
  head: number;
  page: Window;
}

const INNER = 4096; // a product whose inner side is longer shows a part of it
const AROUND = 24; // rows or columns to either side, where only a place in a vocabulary is shown

export function headOf(matrix: Matrix, head: number): number | null {
  return matrix.heads > 1 ? Math.min(head, matrix.heads - 1) : null;
}

function near(n: number, size: number, reach = AROUND): [number, number] {
  const start = Math.max(0, Math.min(n - reach, size - 2 * reach - 1));
  return [start, Math.min(size, start + 2 * reach + 1)];
}

/** What has to be read anew when it changes: for most steps only the page, for some the row or the cell. */
export function needs(step: Step, cell: Cell): string {
  const page = pageOf(step, cell);
  const base = [step.id, page.r0, page.c0];
  if (step.operation === "product" && step.operands[0]!.columns.size > INNER) return [...base, cell.row, cell.column].join();
  const wide = step.operands.some((matrix) => matrix.columns.of === "vocabulary");
  const byRow = ["lookup", "choose", "softmax"].includes(step.operation); // they read a row beside the page
  return (byRow || wide ? [...base, cell.row] : base).join();
}

export async function readStep(source: Source, step: Step, head: number, cell: Cell): Promise<Loaded> {
  const page = pageOf(step, cell);
  const get = (matrix: Matrix, window?: Partial<Window>) => source.matrix(matrix.key, headOf(matrix, head), window);
  const same = (matrix: Matrix) =>
    get(matrix, {
      ...(matrix.rows.size === 1 ? { r0: 0, r1: 1 } : { r0: page.r0, r1: page.r1 }),
      ...(matrix.columns.size === 1 ? { c0: 0, c1: 1 } : { c0: page.c0, c1: page.c1 }),
    });
  const result = same(step.result);
  const more = await operandsOf(source, step, head, cell, page, get, same);
  return { step, head, page, ...withPicture(source), ...more, result: await result };
}

function withPicture(source: Source): Pick<Read, "picture"> {
  const { picture } = source.pass;
  return picture ? { picture } : {};
}

type Get = (matrix: Matrix, window?: Partial<Window>) => Promise<Grid>;
type More = Pick<Read, "operands"> & Partial<Read>;

async function operandsOf(source: Source, step: Step, head: number, cell: Cell, page: Window, get: Get, same: Get): Promise<More> {
  const { operands } = step;
  const rows = { r0: page.r0, r1: page.r1 };
  const oneRow = { r0: cell.row, r1: cell.row + 1 };
  switch (step.operation) {
    case "product":
      return product(source, step, cell, page, get);
    case "lookup":
      return lookup(step, cell, get);
    case "choose":
      return { operands: await Promise.all(operands.map((matrix) => get(matrix, oneRow))) };
    case "softmax": {
      const [shown, row] = await Promise.all([same(operands[0]!), get(operands[0]!, oneRow)]);
      return { operands: [shown], row };
    }
    case "norm":
    case "rms":
      return { operands: await Promise.all(operands.map((matrix) => get(matrix, matrix.rows.size === 1 ? {} : rows))) };
    case "concat": {
      const matrix = operands[0]!;
      const heads = await Promise.all(Array.from({ length: matrix.heads }, (_, n) => source.matrix(matrix.key, matrix.heads > 1 ? n : null, rows)));
      return { operands: [heads[Math.min(head, heads.length - 1)]!], heads };
    }
    case "join":
    case "pool":
    case "patches":
    case "pixels":
      return { operands: await Promise.all(operands.map((matrix) => get(matrix))) };
    default:
      return { operands: await Promise.all(operands.map((matrix) => same(matrix))) };
  }
}

async function product(source: Source, step: Step, cell: Cell, page: Window, get: Get): Promise<More> {
  const [left, right, bias] = step.operands as [Matrix, Matrix, Matrix | undefined];
  const rows = { r0: page.r0, r1: page.r1 };
  const columns = { c0: page.c0, c1: page.c1 };
  const added = bias ? get(bias, columns) : null;
  if (left.columns.size <= INNER) {
    const grids = await Promise.all([get(left, rows), get(right, columns), ...(added ? [added] : [])]);
    return { operands: grids };
  }
  const id = source.pass.tokens[left.rows.of]?.[cell.row]?.id ?? 0;
  const [from, to] = near(id, left.columns.size);
  const [a, b, row, column, ...rest] = await Promise.all([
    get(left, { ...rows, c0: from, c1: to }),
    get(right, { r0: from, r1: to, ...columns }),
    get(left, { r0: cell.row, r1: cell.row + 1 }),
    get(right, { c0: cell.column, c1: cell.column + 1 }),
    ...(added ? [added] : []),
  ]);
  return { operands: [a!, b!, ...rest], row, column };
}

async function lookup(step: Step, cell: Cell, get: Get): Promise<More> {
  const table = tableOf({ step });
  const numbers = step.operands.findIndex((_, n) => n !== table);
  const ids = numbers >= 0 ? await get(step.operands[numbers]!) : null;
  const id = ids ? ids.values[cell.row]! : cell.row;
  const matrix = step.operands[table]!;
  const [r0, r1] = near(id, matrix.rows.size, 5);
  const rows = await get(matrix, { r0, r1 });
  const operands: Grid[] = [];
  operands[table] = rows;
  if (ids) operands[numbers] = ids;
  return { operands };
}
