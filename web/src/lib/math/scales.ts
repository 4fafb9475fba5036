/** Colours for numbers. Two scales only: blue - neutral - orange around zero, and one from pale to violet for shares.
 * Both keep their order for colour-blind eyes: lightness falls (on dark: rises) with the size of the number. */
import { hcl, lab, rgb, scalePow, type RGBColor } from "d3";

export type Colouring = "signed" | "share" | "plain";
export type Theme = "light" | "dark";
type Triple = [number, number, number];

const ENDS: Record<Theme, { zero: Triple; low: Triple; high: Triple; pale: Triple; middle: Triple; deep: Triple }> = {
  light: {
    zero: [244, 243, 240], low: [38, 92, 200], high: [214, 98, 14],
    pale: [247, 246, 243], middle: [150, 140, 220], deep: [52, 22, 92],
  },
  dark: {
    zero: [36, 38, 42], low: [86, 140, 255], high: [255, 150, 60],
    pale: [30, 32, 38], middle: [92, 88, 190], deep: [236, 226, 160],
  },
};
const STEPS = 256;

function mix(a: Triple, b: Triple, t: number): Triple {
  return [0, 1, 2].map((i) => Math.round(a[i]! + (b[i]! - a[i]!) * t)) as Triple;
}

/** One table of colours for each scale and theme: index 0 is the lowest value, STEPS the highest. */
function table(colouring: Colouring, theme: Theme): Triple[] {
  const ends = ENDS[theme];
  const ease = scalePow().exponent(0.8).domain([0, 1]).range([0, 1]);
  return Array.from({ length: STEPS + 1 }, (_, n) => {
    const t = n / STEPS;
    if (colouring === "plain") return ends.zero;
    if (colouring === "share") return t < 0.5 ? mix(ends.pale, ends.middle, t * 2) : mix(ends.middle, ends.deep, t * 2 - 1);
    const side = 2 * t - 1;
    return mix(ends.zero, side < 0 ? ends.low : ends.high, ease(Math.abs(side)));
  });
}

const TABLES = new Map<string, { colours: Triple[]; css: string[]; ink: string[] }>();

function tableOf(colouring: Colouring, theme: Theme) {
  const name = `${colouring}-${theme}`;
  let found = TABLES.get(name);
  if (!found) {
    const colours = table(colouring, theme);
    const css = colours.map(([r, g, b]) => rgb(r, g, b).formatHex());
    found = { colours, css, ink: css.map((colour) => inkOn(colour)) };
    TABLES.set(name, found);
  }
  return found;
}

/** Black or white, whichever is read more easily on a colour. */
export function inkOn(colour: string): string {
  return contrast(rgb(colour), rgb("#000000")) >= contrast(rgb(colour), rgb("#ffffff")) ? "#000000" : "#ffffff";
}

export function luminance({ r, g, b }: RGBColor): number {
  const [x, y, z] = [r, g, b].map((v) => {
    const c = v / 255;
    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  }) as Triple;
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
}

export function contrast(a: RGBColor, b: RGBColor): number {
  const [high, low] = [luminance(a), luminance(b)].sort((p, q) => q - p) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

export interface Scale {
  colouring: Colouring;
  low: number;
  high: number;
  shared: boolean;
  css(x: number): string;
  ink(x: number): string;
  triple(x: number): Triple;
  gradient: string;
}

/** The scale of a matrix whose finite values lie between min and max. */
export function scaleOf(colouring: Colouring, min: number, max: number, theme: Theme, shared = false): Scale {
  const { colours, css, ink } = tableOf(colouring, theme);
  const reach = Math.max(Math.abs(min), Math.abs(max)) || 1;
  const [low, high] = colouring === "signed" ? [-reach, reach] : colouring === "share" ? [0, max > 0 ? max : 1] : [min, max];
  const index = (x: number) => {
    if (!(high > low)) return 0;
    return Math.round(STEPS * Math.min(1, Math.max(0, (x - low) / (high - low))));
  };
  const stops = [0, 0.25, 0.5, 0.75, 1].map((t) => css[Math.round(t * STEPS)]).join(",");
  return {
    colouring, low, high, shared,
    css: (x) => css[index(x)]!,
    ink: (x) => ink[index(x)]!,
    triple: (x) => colours[index(x)]!,
    gradient: `linear-gradient(90deg,${stops})`,
  };
}

/** A token or a patch keeps its colour everywhere: by its place, hues a golden angle apart. */
export function placeColour(place: number, theme: Theme): string {
  const hue = (place * 137.508 + 250) % 360;
  return hcl(hue, theme === "dark" ? 52 : 58, theme === "dark" ? 70 : 55).formatHex();
}

/** A head's colour, for bands above concatenated heads. */
export function headColour(head: number, theme: Theme): string {
  const light = theme === "dark" ? 72 : 52 - 10 * (head % 2);
  return hcl((head * 137.508 + 30) % 360, 55, light).formatHex();
}

export function lightness(colour: string): number {
  return lab(colour).l;
}
