"""A pass of 12 layers, 12 heads and 512 tokens stays responsive: first paint below 1 s, hover below 50 ms.

That is what an idle machine does. Here other tests run meanwhile, on the same two cores, so the best of a few tries is
held against three times as much. The figures are printed (pytest -rP) and kept beside the screenshots, in speed.txt.
"""

import statistics
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

import clearhead
from clearhead.data import word_tokenizer
from clearhead.models import create
from tests.browser.conftest import SCREENSHOTS, Served, serving

pytestmark = pytest.mark.xdist_group("browser-walk")

PAINT, HOVER = 1.0, 0.05  # seconds, on an idle machine
NOISE = 3
TRIES = 3
TOKENS = 512
STEP = "decoder.6.attention.softmax"

# Marks when every matrix of the first stage is drawn and its frame is behind us, and when a hovered number is.
MARKS = """(() => {
  const behindTheFrame = (then) => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = then;
    channel.port2.postMessage(null);
  });
  const drawn = () => {
    const figures = [...document.querySelectorAll("[data-stage] figure.mat")];
    return figures.length > 0 && figures.every((one) => one.querySelector("canvas, [role=gridcell]"));
  };
  const watch = new MutationObserver(() => {
    if (!drawn()) return;
    watch.disconnect();
    behindTheFrame(() => performance.mark("painted"));
  });
  addEventListener("DOMContentLoaded", () => watch.observe(document.body, { childList: true, subtree: true }));
  addEventListener("pointermove", ({ timeStamp }) => behindTheFrame(() => {
    const said = document.querySelector("figure[data-as=result] output").dataset;
    const tip = document.querySelector("figure[data-as=result] .tip b")?.textContent;
    performance.measure("hover", { start: timeStamp, detail: tip && `${said.row},${said.column}` });
  }), true);
})()"""
PAINTED = """async () => {
  while (!performance.getEntriesByName("painted").length) await new Promise(requestAnimationFrame);
  const pass = performance.getEntriesByType("resource").filter((one) => one.name.endsWith("api/passes")).at(-1);
  const said = await (await fetch(`api/passes/${document.querySelector(".app").dataset.ready}`)).json();
  return {
    forward: said.seconds,
    answer: (pass.responseEnd - pass.requestStart) / 1000 - said.seconds,
    paint: performance.measure("first paint", { start: pass.responseEnd, end: "painted" }).duration / 1000,
  };
}"""
HOVERED = "() => performance.getEntriesByName('hover').map((one) => [one.detail, one.duration / 1000])"


@pytest.fixture(scope="module")
def large(browser, built_page, tmp_path_factory) -> Iterator[Served]:
    """A GPT-2 with all its layers and heads and random weights, narrow so that the pass itself is quick."""
    words = [f"word{n}" for n in range(200)]
    tok = word_tokenizer([" ".join(words)])
    model = create("gpt2", vocab=tok.size, context=TOKENS, width=96, init_std=0.3, seed=0, device="cpu")
    folder = clearhead.save(model, tmp_path_factory.mktemp("large") / "gpt2-narrow", tokenizer=tok)
    with serving(built_page, tmp_path_factory.mktemp("root"), folder) as address:
        yield Served(address, {})


@pytest.fixture
def page(tab) -> Page:
    made = tab()
    made.set_default_timeout(120_000)
    made.add_init_script(MARKS)
    return made


def text(first: int) -> str:
    return " ".join(f"word{(first + 7 * n) % 200}" for n in range(TOKENS))


def painted(page: Page, large: Served, first: int) -> dict[str, float]:
    """Open the step on a text that was not run before: how long the forward pass, its answer, and the paint took."""
    page.goto("about:blank")
    page.goto(large.at(model="gpt2-narrow", text=text(first), step=STEP))
    seconds = page.evaluate(PAINTED)
    expect(page.locator("[data-stage]")).to_have_attribute("data-stage", STEP)
    return seconds


def hovered(page: Page, moves: int = 24) -> list[float]:
    """A pointer over the matrix: from each move until the frame that shows the cell's number."""
    body = page.locator("figure[data-as=result] .body")
    body.scroll_into_view_if_needed()
    box = body.bounding_box()
    assert box is not None
    for n in range(1, moves + 1):
        page.mouse.move(box["x"] + n * box["width"] / (moves + 2), box["y"] + n * box["height"] / (moves + 3))
        page.wait_for_function(f"() => performance.getEntriesByName('hover').length >= {n}")
    found = page.evaluate(HOVERED)
    assert len({cell for cell, _ in found}) == moves, "every move shows the number of another cell"
    return [seconds for _, seconds in found]


def test_a_long_pass_is_painted_soon_after_it_was_computed_and_hover_is_quick(large, page, keep):
    paints = [painted(page, large, first) for first in range(1, TRIES + 1)]
    result = page.locator("figure[data-as=result]")
    expect(result).to_have_attribute("data-window", f"0,{TOKENS},0,{TOKENS}")
    expect(result).to_have_attribute("data-mode", "canvas")
    hovers = hovered(page)
    keep(page, "long-input")
    best, median = min(one["paint"] for one in paints), statistics.median(hovers)
    tell(
        *(f"forward pass {one['forward']:.2f} s, its answer {one['answer']:.2f} s behind it" for one in paints),
        *(f"first paint {one['paint']:.2f} s behind the answer" for one in paints),
        f"hover: median {1000 * median:.0f} ms of {len(hovers)}, longest {1000 * max(hovers):.0f} ms",
    )
    assert best < NOISE * PAINT, paints
    assert median < NOISE * HOVER, hovers


def tell(*lines: str) -> None:
    said = "\n".join(f"12 layers, 12 heads, {TOKENS} tokens: {line}" for line in lines)
    print(said)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    (SCREENSHOTS / "speed.txt").write_text(f"{said}\n", encoding="utf-8")


def test_steps_of_a_long_pass_follow_each_other_quickly(large, page):
    painted(page, large, 1)
    for step in ("weighted", "concat", "projected"):
        page.keyboard.press("ArrowRight")
        expect(page.locator("[data-stage]")).to_have_attribute("data-stage", f"decoder.6.attention.{step}")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
