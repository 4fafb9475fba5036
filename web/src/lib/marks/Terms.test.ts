import { fireEvent, render } from "@testing-library/svelte";
import { describe, expect, it } from "vitest";
import type { Term } from "../math/terms";
import Terms from "./Terms.svelte";

const terms: Term[] = Array.from({ length: 40 }, (_, k) => ({ k, left: k, right: 0.5, value: k * 0.5 }));
const total = terms.reduce((sum, term) => sum + term.value, 0);
const props = { written: { terms, facts: [], total, shown: total }, heading: "E[a, b]", site: "scores", place: "0, 0", operation: "product" };
const sumOf = (page: Element) => [...page.querySelectorAll<HTMLElement>("tr[data-term]")].reduce((sum, row) => sum + Number(row.dataset.value), 0);

describe("a cell written out on the page", () => {
  it("sums to its total also where only the largest terms are shown", () => {
    const page = render(Terms, { props }).container;
    expect(page.querySelectorAll("tr[data-term]").length).toBe(13);
    expect(sumOf(page)).toBeCloseTo(total, 9);
    expect(Number(page.querySelector<HTMLElement>('[data-term="total"]')?.dataset.value)).toBe(total);
  });
  it("shows all terms in order when asked", async () => {
    const page = render(Terms, { props }).container;
    await fireEvent.click(page.querySelector('[data-action="all-terms"]')!);
    const rows = [...page.querySelectorAll<HTMLElement>("tr[data-term]")];
    expect(rows.map((row) => row.dataset.term)).toEqual(terms.map((term) => String(term.k)));
  });
  it("marks a total that is not what the model computed", () => {
    const page = render(Terms, { props: { ...props, written: { ...props.written, shown: total + 1 } } }).container;
    expect(page.querySelector(".bad")).not.toBeNull();
  });
});
