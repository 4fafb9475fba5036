/** From a drawing to a file in the reader's hands. */
import type { Palette } from "./write";

/** The colours of the page as it is now, light or dark. */
export function palette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string, unless: string) => style.getPropertyValue(`--${name}`).trim() || unless;
  return {
    page: colour("bg", "#fbfbfa"), ink: colour("ink", "#1b1c1e"), soft: colour("soft", "#5a5d63"), faint: colour("faint", "#6d7077"),
    accent: colour("accent", "#2f5bd7"), mask1: colour("mask1", "#ecebe7"), mask2: colour("mask2", "#d3d1ca"),
  };
}

export function save(name: string, blob: Blob) {
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser may still be asking where to put it
}

/** One pixel a cell, as the address of a PNG. */
export function painted(width: number, height: number, pixels: Uint8ClampedArray<ArrayBuffer>): string {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  canvas.getContext("2d")!.putImageData(new ImageData(pixels, width, height), 0, 0);
  return canvas.toDataURL("image/png");
}

/** An SVG that is drawn as a picture sees none of the page's fonts: it takes ours along. */
function withFonts(svg: string): string {
  const rules = [...document.styleSheets].flatMap((one) => [...one.cssRules]).filter((rule) => rule instanceof CSSFontFaceRule);
  const ours = rules.filter((rule) => rule.style.getPropertyValue("font-family").includes("Inter") && rule.cssText.includes("data:"));
  return svg.replace("</title>", `</title><style>${ours.map((rule) => rule.cssText.replaceAll("&", "&amp;").replaceAll("<", "&lt;")).join("")}</style>`);
}

/** Twice as large as it stands on the page, to be sharp on a projector. */
export async function pngOf(svg: string, times = 2): Promise<Blob> {
  const address = URL.createObjectURL(new Blob([withFonts(svg)], { type: "image/svg+xml" }));
  const image = new Image();
  try {
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.naturalWidth * times, image.naturalHeight * times];
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large to be painted"))), "image/png"));
  } finally {
    URL.revokeObjectURL(address);
  }
}
