/** The non-linearities, each as the model computes it, and softmax with a temperature. */

/** The error function to about 1e-15 near 0 and 1e-12 elsewhere: a series inside, a continued fraction outside. */
export function erf(x: number): number {
  const a = Math.abs(x);
  if (a > 6) return Math.sign(x);
  if (a < 2.5) {
    let term = a;
    let sum = a;
    for (let n = 1; n < 120 && Math.abs(term) > 1e-18 * Math.abs(sum); n++) {
      term *= (-a * a) / n;
      sum += term / (2 * n + 1);
    }
    return Math.sign(x) * (2 / Math.sqrt(Math.PI)) * sum;
  }
  let fraction = 0;
  for (let n = 80; n >= 1; n--) fraction = n / 2 / (a + fraction);
  return Math.sign(x) * (1 - Math.exp(-a * a) / Math.sqrt(Math.PI) / (a + fraction));
}

export const ACTIVATIONS: Record<string, (x: number) => number> = {
  relu: (x) => Math.max(0, x),
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  gelu_tanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  tanh: Math.tanh,
  silu: (x) => x / (1 + Math.exp(-x)),
  sigmoid: (x) => 1 / (1 + Math.exp(-x)),
};

export function activation(name: string | null | undefined): (x: number) => number {
  const found = ACTIVATIONS[name ?? ""];
  if (!found) throw new RangeError(`no activation is called ${name}`);
  return found;
}

/** Probabilities of logits at a temperature. Probabilities may be given instead: their logarithms are logits. */
export function softened(values: ArrayLike<number>, temperature: number, areShares = false): Float64Array {
  const out = new Float64Array(values.length);
  let top = -Infinity;
  for (let i = 0; i < values.length; i++) {
    out[i] = (areShares ? Math.log(values[i]!) : values[i]!) / temperature;
    if (out[i]! > top) top = out[i]!;
  }
  let sum = 0;
  for (let i = 0; i < out.length; i++) sum += out[i] = Math.exp(out[i]! - top);
  for (let i = 0; i < out.length; i++) out[i] = out[i]! / sum;
  return out;
}

/** The places of the n largest values, largest first. */
export function largest(values: ArrayLike<number>, n: number, size: (x: number) => number = (x) => x): number[] {
  const order = Array.from({ length: values.length }, (_, i) => i);
  return order.sort((a, b) => size(values[b]!) - size(values[a]!)).slice(0, n);
}
