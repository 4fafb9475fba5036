/** The place of the target that is looked at, and whether the decoder is taught or tested there. */
import type { Pass, Step } from "../../api/types";
import type { Cell } from "../../math/grid";
import { cellIn } from "../../state/walk";

export type Way = "taught" | "tested";

export interface Moment {
  /** the place of the target, from 0 */
  time: number;
  way: Way;
}

/** Only an encoder-decoder writes a target of its own. */
export const writesTarget = (pass: Pass) => (pass.tokens.target?.length ?? 0) > 0 && pass.tokens.source !== undefined;

export function atDecoder(step: Step): boolean {
  return /^(target|decoder|head)/.test(step.part);
}

export function timeOf(pass: Pass, said: string | null): number | null {
  const value = Number(said ?? NaN);
  return writesTarget(pass) && Number.isInteger(value) && value >= 0 ? Math.min(value, pass.tokens.target!.length - 1) : null;
}

/** The cell to show: the row of the chosen moment, or what the step itself finds telling. */
export function cellAt(pass: Pass, step: Step, asked: Cell | null, time: number | null): Cell {
  if (time !== null && step.result.rows.of === "target") return cellIn(pass, step, { row: time, column: asked?.column ?? Number.MAX_SAFE_INTEGER });
  return cellIn(pass, step, asked);
}

/** Tested, a place behind the moment does not exist yet, as a row or as a column. */
export function toCome(axes: { rows: { of: string }; columns: { of: string } }, { time, way }: Moment): ((row: number, column: number) => boolean) | null {
  const [rows, columns] = [axes.rows.of === "target", axes.columns.of === "target"];
  if (way !== "tested" || (!rows && !columns)) return null;
  return (row, column) => (rows && row > time) || (columns && column > time);
}

/** What the cache holds of a matrix: keys and values are kept, all else is made anew or was thrown away. */
export function cacheNote(site: string, { time, way }: Moment): string | null {
  if (way !== "tested") return null;
  if (/^decoder\.blocks\.\d+\.attention\.(key|value)$/.test(site)) return time ? `rows 0 to ${time - 1} from the cache, row ${time} new` : "row 0 new, the cache was empty";
  if (/^decoder\.blocks\.\d+\.cross\.(key|value)$/.test(site)) return "kept since the source was read, the same at every step";
  return null;
}
