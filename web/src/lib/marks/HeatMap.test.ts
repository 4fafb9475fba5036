import { fireEvent, render } from "@testing-library/svelte";
import { describe, expect, it, vi } from "vitest";
import type { Axis, Matrix } from "../api/types";
import { gridOf } from "../math/grid";
import HeatMap from "./HeatMap.svelte";

const axis = (size: number, of: Axis["of"] = "dimensions"): Axis => ({ of, size, labels: null });
const matrix = (rows: number, columns: number): Matrix => ({
  key: "site:scores", name: "E", means: "scores", rows: axis(rows), columns: axis(columns), heads: 2, colour: "signed", site: "scores", kind: "site",
});
const size = { w: 30, h: 26 };

function drawn(rows: number[][], more: object = {}) {
  const props = { matrix: matrix(rows.length, rows[0]!.length), grid: gridOf("site:scores", rows, 1), size, as: "result", ...more };
  return render(HeatMap, { props }).container;
}

HTMLCanvasElement.prototype.getContext = () => null; // jsdom draws nothing

describe("a heat map", () => {
  it("says its key and head, and holds every cell's value in full", () => {
    const page = drawn([[0.1, -2.5], [3, 4]]);
    expect(page.querySelector("figure")?.dataset).toMatchObject({ key: "site:scores", head: "1", mode: "cells", rows: "2" });
    const cell = page.querySelector<HTMLElement>('[data-row="0"][data-column="0"]');
    expect(Number(cell?.dataset.value)).toBe(Math.fround(0.1));
    expect(cell?.textContent).toBe("0.10");
  });
  it("hatches what is masked, and writes nothing into it", () => {
    const cell = drawn([[1, -Infinity]]).querySelector('[role="gridcell"][data-column="1"]');
    expect(cell?.classList.contains("masked")).toBe(true);
    expect(cell?.textContent).toBe("");
  });
  it("is one stop for Tab; arrows go from cell to cell and Enter chooses", async () => {
    const onchoose = vi.fn();
    const page = drawn([[1, 2], [3, 4]], { onchoose });
    expect(page.querySelectorAll('[role="gridcell"][tabindex="0"]').length).toBe(1);
    const grid = page.querySelector('[role="grid"]')!;
    await fireEvent.keyDown(grid, { key: "ArrowDown" });
    await fireEvent.keyDown(grid, { key: "ArrowRight" });
    await fireEvent.keyDown(grid, { key: "Enter" });
    expect(onchoose).toHaveBeenCalledWith({ row: 1, column: 1 });
    expect(page.querySelector<HTMLElement>('[tabindex="0"]')?.dataset).toMatchObject({ row: "1", column: "1" });
  });
  it("reads the focused cell out", async () => {
    const page = drawn([[1, 2]], { rowLabels: ["it"], columnLabels: ["the", "animal"] });
    await fireEvent.focusIn(page.querySelector('[role="grid"]')!);
    await fireEvent.keyDown(page.querySelector('[role="grid"]')!, { key: "End" });
    expect(page.querySelector("output")?.textContent?.trim()).toBe("it, animal: 2.00");
  });
  it("shows cells up to 64 by 64 and draws what is larger", () => {
    const large = Array.from({ length: 2 }, () => Array.from({ length: 65 }, (_, n) => n));
    const page = drawn(large, { chosen: { row: 1, column: 64 } });
    expect(page.querySelector("figure")?.dataset.mode).toBe("canvas");
    expect(page.querySelector("output")?.dataset).toMatchObject({ row: "1", column: "64", value: "64" });
  });
  it("says the ends of its scale, and that it is this matrix's own", () => {
    expect(drawn([[-1, 4]]).querySelector(".legend")?.textContent?.replace(/\s+/g, " ").trim()).toBe("−4.00 4.00 this matrix: −1.00 to 4.00");
  });
});
