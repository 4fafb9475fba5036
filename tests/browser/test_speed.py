"""A pass of 12 layers, 12 heads and 512 tokens stays responsive. The bounds are wide: other tests run meanwhile."""

import statistics

import pytest
from playwright.sync_api import Page, expect

import clearhead
from clearhead.data import word_tokenizer
from clearhead.models import create
from tests.browser.conftest import Served, serving

pytestmark = pytest.mark.xdist_group("browser-walk")

PAINT = 6.0  # seconds from the pass's answer to the first matrices; on an idle machine it is below one
HOVER = 0.4  # seconds from the pointer's move to the number; on an idle machine it is below 0.05
TOKENS = 512
STEP = "decoder.6.attention.softmax"

# How long after the answer of the pass the stage was painted: the frame behind the one in which it is there.
PAINTED = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const end = performance.now() + 90000;
  while (!document.querySelector("[data-stage] figure.mat canvas") && performance.now() < end) await frame();
  await frame();
  const now = performance.now();
  const asked = performance.getEntriesByType("resource").filter((one) => one.name.endsWith("api/passes"));
  return (now - asked.at(-1).responseEnd) / 1000;
}"""
HOVERED = """async () => {
  const figure = document.querySelector("[data-stage] figure[data-as=result]");
  const [body, said] = [figure.querySelector(".body"), figure.querySelector("output")];
  const box = body.getBoundingClientRect();
  const seconds = [];
  for (let n = 1; n <= 20; n++) {
    const before = `${said.dataset.row},${said.dataset.column}`;
    const [clientX, clientY] = [box.left + (n * box.width) / 22, box.top + (n * box.height) / 23];
    const began = performance.now();
    body.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, bubbles: true }));
    const waits = () => `${said.dataset.row},${said.dataset.column}` === before && performance.now() < began + 5000;
    while (waits()) await new Promise(requestAnimationFrame);
    seconds.push((performance.now() - began) / 1000);
  }
  return seconds;
}"""


@pytest.fixture(scope="module")
def large(browser, built_page, tmp_path_factory):
    """A GPT-2 with all its layers and heads, narrow so that the pass itself is quick."""
    words = [f"word{n}" for n in range(200)]
    tok = word_tokenizer([" ".join(words)])
    model = create("gpt2", vocab=tok.size, context=TOKENS, width=96, init_std=0.3, seed=0, device="cpu")
    folder = clearhead.save(model, tmp_path_factory.mktemp("large") / "gpt2-narrow", tokenizer=tok)
    with serving(built_page, tmp_path_factory.mktemp("root"), folder) as address:
        yield Served(address, {})


def text(first: int) -> str:
    return " ".join(f"word{(first + 7 * n) % 200}" for n in range(TOKENS))


def paint(page: Page, large: Served, first: int) -> float:
    page.goto(large.at(model="gpt2-narrow", text=text(first), step=STEP))
    seconds = page.evaluate(PAINTED)
    expect(page.locator("[data-stage]")).to_have_attribute("data-stage", STEP)
    return seconds


def test_a_long_pass_is_painted_soon_after_it_was_computed_and_hover_is_quick(large, tab, keep):
    page = tab()
    page.set_default_timeout(120_000)
    paints = [paint(page, large, 1)]
    if paints[0] > PAINT:  # once more, in case another test had the machine
        paints.append(paint(page, large, 2))
    result = page.locator("figure[data-as=result]")
    expect(result).to_have_attribute("data-window", f"0,{TOKENS},0,{TOKENS}")
    expect(result).to_have_attribute("data-mode", "canvas")
    keep(page, "long-input")
    hovers = page.evaluate(HOVERED)
    assert min(paints) < PAINT, paints
    assert statistics.median(hovers) < HOVER, hovers


def test_steps_of_a_long_pass_follow_each_other_quickly(large, tab):
    page = tab()
    page.set_default_timeout(120_000)
    paint(page, large, 1)
    for step in ("weighted", "concat", "projected"):
        page.keyboard.press("ArrowRight")
        expect(page.locator("[data-stage]")).to_have_attribute(
            "data-stage", f"decoder.6.attention.{step}", timeout=20_000
        )
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
