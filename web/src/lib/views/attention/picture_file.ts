/** A number per patch over the picture, as a file of its own. */
import { embedded, framed, type Told } from "../../export/drawing";
import { element, escaped, text } from "../../export/write";
import { full, three } from "../../math/format";

export interface PictureFigure {
  address: string;
  width: number;
  height: number;
  /** of the grid: patches down and along, how far apart they begin, how large each is */
  down: number;
  along: number;
  step: { x: number; y: number };
  patch: { w: number; h: number };
  values: ArrayLike<number>;
  top: number;
  own: number | null;
  colour: readonly number[];
}

export const shareOf = (value: number, top: number) => (top > 0 ? Math.min(1, Math.max(0, value / top)) : 0);
const DEEPEST = 235 / 255; // a trace of the picture is left below

export async function pictureSvg(figure: PictureFigure, told: Told): Promise<string> {
  return patchesSvg(figure, figure.address.startsWith("data:") ? figure.address : await embedded(figure.address), told);
}

export function patchesSvg({ width, height, down, along, step, patch, values, top, own, colour }: PictureFigure, href: string, told: Told): string {
  const fill = `rgb(${colour.join(", ")})`;
  const grey = element("filter", { id: "grey" }, element("feColorMatrix", { type: "saturate", values: "0" }));
  const ramp = element("linearGradient", { id: "ramp" }, element("stop", { offset: 0, "stop-color": fill, "stop-opacity": 0 }) + element("stop", { offset: 1, "stop-color": fill, "stop-opacity": DEEPEST }));
  const picture = element("image", { href, width, height, preserveAspectRatio: "none", opacity: 0.5, filter: "url(#grey)", style: "image-rendering: pixelated" });
  const at = (n: number) => ({ x: (n % along) * step.x, y: Math.floor(n / along) * step.y });
  const patches = Array.from({ length: down * along }, (_, n) => {
    const said = `patch ${Math.floor(n / along) + 1},${(n % along) + 1}: ${full(values[n]!)}`;
    return element("rect", { ...at(n), width: step.x, height: step.y, fill, "fill-opacity": DEEPEST * shareOf(values[n]!, top) }, `<title>${escaped(said)}</title>`);
  });
  const looking = own === null ? "" : element("rect", { ...at(own), width: patch.w, height: patch.h, fill: "none", stroke: "#2f5bd7", "stroke-width": 2 });
  const y = height + 15;
  const style = { y, "font-size": 11, fill: told.palette.soft };
  const legend = text("0", { ...style, x: 0 }) + element("rect", { x: 12, y: y - 8, width: 76, height: 7, rx: 3.5, fill: "url(#ramp)" }) + text(three(top), { ...style, x: 94 });
  return framed(element("defs", {}, grey + ramp) + picture + patches.join("") + looking + legend, { width, height: height + 18 }, told);
}
