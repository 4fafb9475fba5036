/** Writing an SVG as text: elements, colours of the page, lines of words. */
export interface Palette {
  page: string;
  ink: string;
  soft: string;
  faint: string;
  accent: string;
  mask1: string;
  mask2: string;
}

export const FONT = "'Inter Variable', Inter, system-ui, 'Noto Sans', 'Noto Sans Devanagari', sans-serif";
const LETTER = 0.6; // the width of a letter, in sizes of the font: nothing is measured, so it is generous

export function escaped(text: string): string {
  const signs: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd").replace(/[&<>"]/g, (sign) => signs[sign]!);
}

type Attributes = Record<string, string | number | null | undefined>;

/** An element. Its content is markup already: put words through `escaped`. */
export function element(name: string, attributes: Attributes, content = ""): string {
  const given = Object.entries(attributes).filter(([, value]) => value !== null && value !== undefined);
  const written = given.map(([key, value]) => ` ${key}="${typeof value === "number" ? short(value) : escaped(value!)}"`).join("");
  return content ? `<${name}${written}>${content}</${name}>` : `<${name}${written}/>`;
}

export function text(words: string, attributes: Attributes): string {
  return element("text", attributes, escaped(words));
}

function short(x: number): string {
  return String(Math.round(x * 1000) / 1000);
}

export function widthOf(words: string, size: number): number {
  return [...words].length * size * LETTER;
}

/** As many parts in a line as it has room for, with a dot between them. */
export function lines(parts: string[], room: number, size: number): string[] {
  const made: string[] = [];
  for (const part of parts) {
    const longer = made.length ? `${made.at(-1)} · ${part}` : part;
    if (made.length && widthOf(longer, size) <= room) made[made.length - 1] = longer;
    else made.push(part);
  }
  return made;
}

export interface Sheet {
  name: string;
  width: number;
  height: number;
  body: string;
  palette: Palette;
}

/** The whole file: it says what it is, and its ground is the page's. */
export function sheet({ name, width, height, body, palette }: Sheet): string {
  const [w, h] = [Math.ceil(width), Math.ceil(height)];
  const ground = element("rect", { width: w, height: h, fill: palette.page });
  const attributes = {
    xmlns: "http://www.w3.org/2000/svg", width: w, height: h, viewBox: `0 0 ${w} ${h}`, role: "img", "font-family": FONT, "font-size": 11, fill: palette.ink,
    style: "font-variant-numeric: tabular-nums",
  };
  return `${element("svg", attributes, `<title>${escaped(name)}</title>${ground}${body}`)}\n`;
}

/** What a file may be called: letters and numbers of any script, words joined by dashes. */
export function fileName(words: string, most = 60): string {
  const plain = words.normalize("NFC").toLowerCase().replace(/[^\p{L}\p{M}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "");
  return ([...plain].slice(0, most).join("").replace(/-+$/, "") || "figure");
}
