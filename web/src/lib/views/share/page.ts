/** A pass as one page: what the server packs, what is inside it, and where it opens. */
import { ask } from "../../api/client";
import type { SharedDocument } from "../../api/shared";
import type { Pass } from "../../api/types";
import { fileName } from "../../export/write";
import { given, givenWords, writeSpot, type Spot } from "../../state/place.svelte";
import { IN_A_FILE } from "../in-file";

export type Inside = Pick<SharedDocument, "notes" | "left_out" | "digits"> & { matrices: number };

const OPENS = '<script type="application/json" id="clearhead-shared"';

export const makePage = async (pass: Pass) => (await ask(`passes/${pass.id}/share`)).text();

/** What a page says of itself. */
export function insideOf(html: string): Inside {
  const start = html.indexOf(">", html.indexOf(OPENS)) + 1;
  const { notes, left_out, digits, matrices } = JSON.parse(html.slice(start, html.indexOf("</script>", start))) as SharedDocument;
  return { notes, left_out, digits, matrices: Object.keys(matrices).length };
}

/** The page, opening where the reader is now: step, head, cell. The model and the input are inside it. */
export function openingAt(html: string, spot: Spot): string {
  const there = IN_A_FILE.has(spot.tab);
  const { preset: _, ...own } = spot.more; // the note on it needs the server
  const at = writeSpot({ ...spot, tab: there ? spot.tab : "step", model: null, inputs: {}, theme: null, present: false, more: there ? own : {} });
  return html.replace(OPENS, () => `${OPENS} data-at="${at.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;")}"`);
}

export function pageName(pass: Pass): string {
  return `${fileName(`${pass.model.name} ${givenWords(pass.inputs, pass.picture)}`, 70)}.html`;
}

/** As a shell takes it. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The command that writes the same page; a picture has to be given as a file. */
export function command(pass: Pass): string {
  const inputs = given(pass.inputs);
  const first = inputs.text ?? inputs.source ?? (inputs.picture === undefined ? undefined : "PICTURE.png");
  const { folder, name } = pass.model;
  const model = folder?.split("/").at(-1) === name ? folder : name; // weights that a package carries go by their name
  const words = ["clearhead", "explain", quoted(model), ...(first === undefined ? [] : [quoted(first)])];
  if (inputs.target !== undefined) words.push("--target", quoted(inputs.target));
  if (inputs.second !== undefined) words.push("--second", quoted(inputs.second));
  return [...words, "-o", "page.html"].join(" ");
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
