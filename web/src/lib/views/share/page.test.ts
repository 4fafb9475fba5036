import { describe, expect, it } from "vitest";
import type { Pass } from "../../api/types";
import { readSpot } from "../../state/place.svelte";
import { command, insideOf, openingAt, pageName, quoted } from "./page";

const inside = { format: 1, matrices: { "site:a|0": {}, "site:a|1": {} }, left_out: [{ key: "weight:w", site: "w", why: "too large" }], digits: "float16", notes: ["Numbers have 16 bits"] };
const html = `<html><body><aside id="clearhead-shared-notes"></aside><script type="application/json" id="clearhead-shared">${JSON.stringify(inside)}</script><script>1</script></body></html>`;
const pass = (inputs: object, model: object = {}) => ({ id: "p", inputs, model: { name: "my run", folder: "runs/my run", random: false, ...model } }) as unknown as Pass;

describe("one page of a pass", () => {
  it("says what is inside it and what is not", () => {
    expect(insideOf(html)).toEqual({ notes: ["Numbers have 16 bits"], left_out: inside.left_out, digits: "float16", matrices: 2 });
  });
  it("opens where the reader was, without the model and the input, which are inside", () => {
    const spot = readSpot("#tab=step&model=minilm&text=I+%3C+%22you%22&step=encoder.0.attention.scores&head=3&cell=1,2&temperature=0.5&theme=dark&preset=it");
    const made = openingAt(html, spot);
    const at = new DOMParser().parseFromString(made, "text/html").getElementById("clearhead-shared")!.dataset.at!;
    expect(readSpot(at)).toEqual({ ...spot, model: null, inputs: {}, theme: null, more: { temperature: "0.5" } });
    expect(insideOf(made)).toEqual(insideOf(html));
  });
  it("opens at the steps also when it was shared from another tab, and a name can not break out of its attribute", () => {
    const made = openingAt(html, { ...readSpot("#tab=words&words=a"), step: '"><script>alert(1)</script>' });
    const page = new DOMParser().parseFromString(made, "text/html");
    expect(page.querySelectorAll("script").length).toBe(2);
    expect(readSpot(page.getElementById("clearhead-shared")!.dataset.at!)).toMatchObject({ tab: "step", step: '"><script>alert(1)</script>', more: {} });
  });
  it("is called by its model and its input", () => {
    expect(pageName(pass({ text: "The animal didn't cross", second: null }))).toBe("my-run-the-animal-didn-t-cross.html");
    expect(pageName(pass({ source: "नमस्ते" }))).toBe("my-run-नमस्ते.html");
  });
  it("can be written by a command, whatever the words are", () => {
    expect(command(pass({ text: "it didn't; rm -rf $HOME" }))).toBe(`clearhead explain 'runs/my run' 'it didn'\\''t; rm -rf $HOME' -o page.html`);
    expect(command(pass({ source: "a", target: "b" }, { name: "t5-mini", random: true, folder: null }))).toBe("clearhead explain t5-mini a --target b -o page.html");
    expect(command(pass({ picture: "digits/test/0" }))).toBe("clearhead explain 'runs/my run' PICTURE.png -o page.html");
    expect(command(pass({ text: "a" }, { name: "all-minilm", folder: "/packages/carrier/model" }))).toBe("clearhead explain all-minilm a -o page.html");
    expect(quoted("")).toBe("''");
  });
});
