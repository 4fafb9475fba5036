"""axe finds no serious fault in any view, light or dark. It comes with the page's own tools, in web/node_modules."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.tabs import registered, settled

pytestmark = pytest.mark.xdist_group("browser-views")

AXE = Path(__file__).resolve().parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
FAULTS = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
  .filter((one) => ["serious", "critical"].includes(one.impact))
  .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.target.join(" ")).join(" | ")}`)"""
THEMES = ("light", "dark")
STEPS = {
    "gpt": ("input.embedding", "decoder.0.attention.scores", "decoder.0.feed_forward.expanded", "head.next"),
    "transformer": ("source.positions", "decoder.0.cross.softmax"),
    "bert": ("input.tokens", "encoder.0.attention.concat", "masked_words.filler"),
    "t5": ("encoder.0.attention.biased", "decoder.0.attention.masked"),
    "vit": ("input.picture", "input.flattened", "input.joined", "head.class"),
}


@pytest.fixture
def faults() -> Callable[[Page], list[str]]:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm --prefix web ci")
    source = AXE.read_text(encoding="utf-8")

    def found(page: Page) -> list[str]:
        page.evaluate(source)
        return page.evaluate(FAULTS)

    return found


def test_axe_would_find_a_button_without_a_name(studio, tab, faults):
    page = tab()
    page.goto(studio.address)
    expect(page.locator("[data-example]").first).to_be_visible()
    page.evaluate("document.body.append(document.createElement('button'))")
    assert [fault.partition(":")[0] for fault in faults(page)] == ["button-name"]


@pytest.mark.parametrize("theme", THEMES)
def test_the_start_has_no_serious_fault(theme, studio, tab, faults):
    page = tab(theme=theme)
    page.goto(studio.address)
    expect(page.locator("[data-example]").first).to_be_visible()
    assert faults(page) == []
    page.get_by_role("button", name="choose a model").click()
    assert faults(page) == [], "with the list of models open"


@pytest.mark.parametrize(
    ("family", "theme"), [*((family, "light") for family in STEPS), ("transformer", "dark"), ("vit", "dark")]
)
def test_the_steps_have_no_serious_fault(family, theme, studio, tab, faults):
    """In the dark the same parts have other colours: one text and one picture are looked at."""
    page = tab(theme=theme)
    page.goto(studio.of(family))
    found = {}
    for step in STEPS[family]:
        page.goto(studio.of(family, step=step))
        expect(page.locator("[data-stage]")).to_have_attribute("data-stage", step)
        found[step] = faults(page)
    assert not any(found.values()), found


@pytest.mark.parametrize("theme", THEMES)
def test_every_zoom_and_dialog_has_no_serious_fault(theme, studio, tab, faults):
    page = tab(theme=theme)
    found = {}
    for zoom in ("model", "block", "cell"):
        page.goto(studio.of("transformer", step="decoder.0.cross.scores", zoom=zoom))
        expect(page.locator(f"button[data-zoom={zoom}]")).to_have_attribute("aria-current", "true")
        settled(page)
        found[zoom] = faults(page)
    page.locator("[data-action=source]").click()
    expect(page.locator("dialog .here")).to_be_visible()
    found["source"] = faults(page)
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="keys")).to_be_visible()
    found["help"] = faults(page)
    assert not any(found.values()), found


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("family", ["transformer", "vit"])
def test_every_tab_has_no_serious_fault(family, theme, studio, tab, faults):
    page = tab(theme=theme)
    found = {}
    for name in registered(page, studio.of(family)):
        page.goto(studio.of(family, tab=name))
        settled(page)
        found[name] = faults(page)
    page.locator("[data-tab=share] button").first.click()
    expect(page.get_by_role("dialog", name="share")).to_be_visible()
    found["share"] = faults(page)
    assert not any(found.values()), found
