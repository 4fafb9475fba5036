import { three } from "../../math/format";

/** A difference of two probabilities, in points of a hundred, always with its sign. */
export function points(difference: number): string {
  if (difference === 0) return "0";
  return `${difference > 0 ? "+" : ""}${three(100 * difference)}`;
}
