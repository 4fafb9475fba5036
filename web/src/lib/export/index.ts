/** Figures as files. A view with an SVG of its own puts `<Export name={...} make={() => drawn(node, name)} />` into a
 * `figure` around it, or calls `exportSvg(node, name)` and `exportPng(node, name)`; one that paints on a canvas takes
 * `penned(draw, size, name)`. */
import type { Pass } from "../api/types";
import { drawingSvg, type Key } from "./drawing";
import { pennedSvg, type Pen } from "./pen";
import { palette, pngOf, save } from "./save";
import { fileName } from "./write";

/** What stands below every figure: the checkpoint, what was read, the path that ran. */
export function fromWhere(pass: Pass | null, site?: string, head?: number | null, heads = 1): string[] {
  if (!pass) return ["clearhead"];
  const parts = [pass.model.name + (pass.model.random ? " (random weights)" : "")];
  if (site) parts.push(site);
  if (heads > 1 && head !== null && head !== undefined) parts.push(`head ${head + 1} of ${heads}`);
  return [...parts, `${pass.path} path`, "clearhead"];
}

export function drawn(node: SVGSVGElement, name: string, from: string[] = [], legend: Key[] = []): Promise<string> {
  return drawingSvg(node, { name, from, legend, palette: palette() });
}

/** What a view paints on a canvas, painted once more with a pen that writes SVG. */
export function penned(draw: (pen: Pen) => void, size: { width: number; height: number }, name: string, from: string[] = []): string {
  return pennedSvg(draw, size, { name, from, palette: palette() });
}

export async function saveFigure(svg: string | Promise<string>, name: string, kind: "svg" | "png") {
  const text = await svg;
  save(`${fileName(name)}.${kind}`, kind === "png" ? await pngOf(text) : new Blob([text], { type: "image/svg+xml" }));
}

export const exportSvg = (node: SVGSVGElement, name: string, from: string[] = []) => saveFigure(drawn(node, name, from), name, "svg");
export const exportPng = (node: SVGSVGElement, name: string, from: string[] = []) => saveFigure(drawn(node, name, from), name, "png");
