/** Shares as bars, as a file of its own. */
import { full, percent } from "../math/format";
import { element, escaped, lines, sheet, text, widthOf, type Palette } from "./write";

export interface BarShown {
  text: string;
  value: number;
  before?: number;
  strong?: boolean;
}

export interface BarsFigure {
  name: string;
  bars: BarShown[];
  from: string[];
  palette: Palette;
}

const EDGE = 16;
const TRACK = 320;
const LINE = 17;

export function barsSvg({ name, bars, from, palette }: BarsFigure): string {
  const most = Math.max(1e-12, ...bars.map((bar) => Math.max(bar.value, bar.before ?? 0)));
  const left = EDGE + Math.min(160, Math.max(40, ...bars.map((bar) => widthOf(bar.text, 12)))) + 10;
  const width = left + TRACK + 76;
  const top = EDGE + 26;
  const drawn = bars.map((bar, n) => {
    const y = top + n * LINE;
    const weight = bar.strong ? 650 : 400;
    const told = `<title>${escaped(`${bar.text}: ${full(bar.value)}`)}</title>`;
    const before = bar.before === undefined ? "" : element("rect", { x: left + (TRACK * bar.before) / most - 1, y: y - 1, width: 2, height: 15, fill: palette.ink, opacity: 0.55 });
    return (
      text(bar.text, { x: left - 10, y: y + 10.5, "text-anchor": "end", "font-size": 12, "font-weight": weight }) +
      element("rect", { x: left, y, width: Math.max(1, (TRACK * bar.value) / most), height: 13, rx: 3, fill: palette.accent, opacity: bar.strong ? 1 : 0.6 }, told) +
      before +
      text(percent(bar.value), { x: left + TRACK + 10, y: y + 10.5, "font-size": 12, fill: palette.soft })
    );
  });
  const below = top + bars.length * LINE + 14;
  const said = lines(from, width - 2 * EDGE, 10);
  const foot = said.map((line, n) => text(line, { x: EDGE, y: below + n * 14, "font-size": 10, fill: palette.faint })).join("");
  const head = text(name, { x: EDGE, y: EDGE + 10, "font-size": 13, "font-weight": 600 });
  return sheet({ name, width, height: below + said.length * 14, body: head + drawn.join("") + foot, palette });
}
