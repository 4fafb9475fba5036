/** A slider from -20 to 20 as a temperature from 0.1 to 10: evenly in its logarithm, two digits, 1 in the middle. */
export function factorAt(slide: number): number {
  return Number((10 ** (slide / 20)).toPrecision(2));
}

export function slideOf(factor: number): number {
  return Math.min(20, Math.max(-20, Math.round(20 * Math.log10(factor))));
}
