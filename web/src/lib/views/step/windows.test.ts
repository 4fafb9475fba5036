import { render } from "@testing-library/svelte";
import { describe, expect, it } from "vitest";
import type { Matrix, Step } from "../../api/types";
import { gridOf, type Grid } from "../../math/grid";
import type { Read } from "../../math/terms";
import Written from "./operations/Written.svelte";
import type { Loaded } from "./read";
import { largestIn, pixelAt, rowsIn, writtenIn, type Window } from "./windows";

const axis = (size: number) => ({ of: "dimensions" as const, size, labels: null });
const matrix = (key: string, grid: Grid): Matrix => ({
  key, name: key, means: "", rows: axis(grid.rows), columns: axis(grid.columns), heads: 1, colour: "signed", site: key, kind: "site",
});

function reading(operation: Step["operation"], window: Window | null, operands: Grid[], result: Grid, changed: string | null = null): Read {
  const step: Step = {
    id: "s", part: "p", short: "", title: "", formula: "", says: "", next: null, slip: null, departs: [], operation,
    operands: operands.map((grid) => matrix(grid.key, grid)), result: matrix(result.key, result), factor: 2, epsilon: null,
    function: operation === "pool" ? "max" : null, window, changed, code: { file: "", line: 1 },
  };
  return { step, operands, result };
}

// Two channels of 2 x 3 pixels, one below the other; the window around the last pixel of the first line.
const image = gridOf("image", [[1, 2, 3], [4, 5, 6], [10, 20, 30], [40, 50, 60]]);
const around: Window = { grid: [2, 3], size: 3, stride: 1, padding: 1 };
const windowRow = [0, 0, 0, 2, 3, 0, 5, 6, 0, 0, 0, 0, 20, 30, 0, 50, 60, 0];

describe("the window around a pixel", () => {
  const windows = gridOf("windows", Array.from({ length: 6 }, () => windowRow));
  const read = reading("patches", around, [image], windows);
  it("holds its pixels channel by channel, and zeros beyond the edge", () => {
    const cells = windowRow.map((_, column) => writtenIn(read, around, { row: 2, column }).total);
    expect(cells).toEqual(windowRow);
  });
  it("says which pixel a cell is", () => {
    expect(pixelAt(read, { row: 2, column: 13 })).toEqual({ channel: 1, y: 0, x: 2 });
    expect(pixelAt(read, { row: 0, column: 0 })).toEqual({ channel: 0, y: -1, x: -1 });
  });
});

describe("the largest of a window", () => {
  const every: Window = { grid: [4, 4], size: 3, stride: 2, padding: 1 };
  const from = gridOf("rows", Array.from({ length: 16 }, (_, n) => [n, -n]));
  const read = reading("pool", every, [from], gridOf("largest", [[5, 0], [7, -1], [13, -4], [15, -5]]));
  it("looks at the rows around every second place, and at none beyond the edge", () => {
    expect(rowsIn(every, 0)).toEqual([0, 1, 4, 5]);
    expect(rowsIn(every, 3)).toEqual([5, 6, 7, 9, 10, 11, 13, 14, 15]);
  });
  it("is written out with the row that it stands in", () => {
    const written = writtenIn(read, every, { row: 3, column: 1 });
    expect([written.total, written.shown, written.terms.length]).toEqual([-5, -5, 9]);
    expect(written.facts[0]).toMatchObject({ name: "row", value: 5 });
    expect(largestIn(read, every, { row: 1, column: 0 })).toBe(7);
  });
});

describe("a step where a change acts", () => {
  const says = "A change acts here, so the result does not follow from what is shown: head 2 off in layer 1.";
  const shown = (changed: string | null) => {
    const read = reading("scale", null, [gridOf("E", [[3]])], gridOf("S", [[7]]), changed);
    return render(Written, { props: { read: { ...read, head: 0, page: { r0: 0, r1: 1, c0: 0, c1: 1 } } as Loaded, cell: { row: 0, column: 0 } } }).container;
  };
  it("says which one in place of terms, and what the pass went on with", () => {
    const page = shown(says);
    expect(page.querySelector("[data-changed]")?.textContent).toContain(says);
    expect(page.querySelector<HTMLElement>("[data-shown-value]")?.dataset.shownValue).toBe("7");
    expect(page.querySelector("[data-term]")).toBeNull();
  });
  it("has its terms where none acts", () => {
    const page = shown(null);
    expect(page.querySelector("[data-changed]")).toBeNull();
    expect(page.querySelector("[data-term]")).not.toBeNull();
  });
});
