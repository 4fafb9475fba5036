// Reads the step that is on the stage: three cells of every matrix, and three cells of the result written out.
async (wanted) => {
  const pause = () => new Promise((done) => setTimeout(done, 0));
  const stage = () => document.querySelector("[data-stage]");

  async function until(found, what) {
    for (const end = performance.now() + 15000; performance.now() < end; await pause()) if (found()) return;
    throw new Error(`${wanted}: waited in vain for ${what}`);
  }

  function move(figure, row, column) {
    const body = figure.querySelector(".body");
    const [r0, r1, c0, c1] = figure.dataset.window.split(",").map(Number);
    const box = body.getBoundingClientRect();
    const clientX = box.left + ((column - c0 + 0.5) * box.width) / (c1 - c0);
    const clientY = box.top + ((row - r0 + 0.5) * box.height) / (r1 - r0);
    body.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, bubbles: true }));
  }

  // A cell of its own where there are cells; of a canvas what the lens reads out.
  async function value(figure, row, column) {
    const cell = figure.querySelector(`.body [data-row="${row}"][data-column="${column}"]`);
    if (cell) return cell.dataset.value;
    const said = figure.querySelector("output");
    const there = () => Number(said.dataset.row) === row && Number(said.dataset.column) === column;
    const moved = () => (move(figure, row, column), there()); // again and again: a stage that was just drawn may still find its width
    move(figure, row, column);
    await pause();
    await until(moved, `the lens at ${row}, ${column}`);
    const lens = figure.querySelector(".lens .here") !== null;
    figure.querySelector(".body").dispatchEvent(new PointerEvent("pointerleave"));
    return lens ? said.dataset.value : "no lens";
  }

  async function matrix(figure) {
    const { key, head, as, rows, columns, mode } = figure.dataset;
    const [r0, r1, c0, c1] = figure.dataset.window.split(",").map(Number);
    const cells = [];
    for (const [row, column] of [[r0, c1 - 1], [(r0 + r1 - 1) >> 1, (c0 + c1 - 1) >> 1], [r1 - 1, c0]])
      cells.push([row, column, await value(figure, row, column)]);
    return { key, head: head === undefined ? 0 : Number(head), as, rows: Number(rows), columns: Number(columns), mode, window: [r0, r1, c0, c1], cells };
  }

  async function written(row, column) {
    const there = `${row}, ${column}`;
    const search = new URLSearchParams(location.hash.slice(1));
    search.set("cell", `${row},${column}`);
    location.hash = search.toString();
    const terms = () => stage().querySelector("[data-terms]");
    await until(() => terms()?.querySelector("header span").textContent === there, `cell ${there} to be written out`);
    if (terms().dataset.shown !== terms().dataset.of) {
      terms().querySelector("[data-action=all-terms]").click();
      await until(() => terms().dataset.shown === terms().dataset.of, "all terms");
    }
    const numbers = (element) => ({ k: element.dataset.term, left: element.dataset.left, right: element.dataset.right, value: element.dataset.value });
    return {
      cell: [row, column],
      terms: [...terms().querySelectorAll("tr[data-term]")].map(numbers),
      facts: [...terms().querySelectorAll("[data-fact]")].map((one) => [one.dataset.fact, one.dataset.value]),
      total: terms().querySelector("[data-term=total]").dataset.value,
      shown: terms().querySelector("[data-shown-value]").dataset.shownValue,
    };
  }

  await until(() => stage()?.dataset.stage === wanted && stage().querySelector("figure.mat"), "its matrices");
  const found = { step: stage().dataset.stage, operation: stage().dataset.operation, matrices: [], written: [] };
  const said = stage().querySelector("figure[data-as=result] output").dataset;
  found.chosen = [Number(said.row), Number(said.column)];
  for (const figure of stage().querySelectorAll("figure.mat")) found.matrices.push(await matrix(figure));
  const result = found.matrices.find((one) => one.as === "result");
  if (stage().querySelector("[data-terms]") && result) for (const [row, column] of result.cells) found.written.push(await written(row, column));
  found.bars = [...stage().querySelectorAll(".bars li")].map((bar) => [Number(bar.dataset.id), bar.dataset.value]);
  found.site = [...document.querySelectorAll("[data-site]")].map((one) => one.dataset.site);
  found.problem = document.querySelector("[data-problem]")?.textContent ?? null;
  const page = document.documentElement;
  found.sideways = page.scrollWidth - page.clientWidth;
  const plain = new URLSearchParams(location.hash.slice(1));
  plain.delete("cell");
  history.replaceState(null, "", `#${plain}`);
  dispatchEvent(new PopStateEvent("popstate"));
  return found;
}
