const MINUS = "−";

function signed(text: string): string {
  return text.replaceAll("-", MINUS);
}

function odd(x: number): string | null {
  if (Number.isNaN(x)) return "NaN";
  if (x === Infinity) return "∞";
  if (x === -Infinity) return `${MINUS}∞`;
  return null;
}

/** Three significant digits: 7.72, −0.0412, 1.2e−7. */
export function three(x: number): string {
  const strange = odd(x);
  if (strange !== null) return strange;
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 99950 || size < 0.001) return signed(x.toExponential(2).replace("e+", "e").replace(/\.?0+e/, "e"));
  if (size >= 999.5) return signed(String(Math.round(x)));
  return signed(x.toPrecision(3));
}

/** At most five characters, for a cell: 33.8, −0.73, 0.04. `most`: the largest of the matrix; small ones show more. */
export function brief(x: number, most = 1): string {
  const strange = odd(x);
  if (strange !== null) return strange;
  const size = Math.abs(x);
  if (most < 0.1 && x !== 0) return most < 0.01 ? signed(x.toExponential(0)) : signed(x.toFixed(3).replace("0.", "."));
  if (size >= 9999.5) return signed(x.toExponential(0).replace("e+", "e"));
  const text = x.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
  return Number(text) === 0 ? (x === 0 ? "0" : "0.00") : signed(text);
}

/** As it came: the shortest decimal that is this 32-bit number again. */
export function full(x: number): string {
  const strange = odd(x);
  if (strange !== null) return strange;
  for (let digits = 6; digits <= 9; digits++) {
    const text = x.toPrecision(digits);
    if (Math.fround(Number(text)) === Math.fround(x)) return signed(String(Number(text)));
  }
  return signed(String(x));
}

/** For a machine: what a data attribute holds. */
export function exact(x: number): string {
  return String(x);
}

export function percent(p: number): string {
  if (p >= 0.9995) return "100%";
  if (p >= 0.1) return `${(100 * p).toFixed(1)}%`;
  if (p >= 0.001) return `${(100 * p).toFixed(2)}%`;
  return p === 0 ? "0%" : `${signed((100 * p).toExponential(1).replace("e+", "e"))}%`;
}

/** 85,584 -> 86k; 124439808 -> 124M. */
export function count(n: number): string {
  const unit: [number, string][] = [
    [1e9, "B"],
    [1e6, "M"],
    [1e3, "k"],
  ];
  for (const [size, letter] of unit) if (n >= size) return `${Number((n / size).toPrecision(n / size < 10 ? 2 : 3))}${letter}`;
  return String(n);
}

export function shape(rows: number, columns: number): string {
  return `${rows}×${columns}`;
}
