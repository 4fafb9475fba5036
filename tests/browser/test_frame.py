"""The frame: the start, the address that is the state, keys, light and dark, sizes, and tabs that don't mix."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import TABLET, WIDE

pytestmark = pytest.mark.xdist_group("browser-views")

FAMILIES = ("gpt", "transformer", "bert", "t5", "vit")
LOOKED_AT = {  # a step whose drawing is wide, in each family
    "gpt": "decoder.0.feed_forward.expanded",
    "transformer": "decoder.1.cross.scores",
    "bert": "masked_words.logits",
    "t5": "encoder.0.attention.biased",
    "vit": "input.flattened",
}


def at_step(page: Page, step: str) -> None:
    expect(page.locator("[data-stage]")).to_have_attribute("data-stage", step)


def spot(page: Page) -> dict[str, str | None]:
    """Where the page says that it is."""
    return page.evaluate(
        """() => ({
          step: document.querySelector("[data-stage]")?.dataset.stage ?? null,
          head: document.querySelector("figure[data-head]")?.dataset.head ?? null,
          cell: document.querySelector("[data-terms] header span")?.textContent ?? null,
          zoom: document.querySelector("[data-zoom][aria-current]")?.dataset.zoom ?? null,
        })"""
    )


def test_the_start_offers_three_examples_and_a_click_opens_one(studio, tab, keep):
    page = tab()
    page.goto(studio.address)
    expect(page.locator("[data-example]")).to_have_count(3)
    keep(page, "start")
    page.locator("[data-example]").first.click()
    expect(page.locator("[data-stage] figure.mat").first).to_be_visible()
    assert "model=" in page.url


def test_the_address_is_the_state_for_reload_back_and_forward(studio, tab):
    page = tab()
    page.goto(studio.of("gpt", step="decoder.1.attention.scores", head=2, cell="3,1"))
    at_step(page, "decoder.1.attention.scores")
    here = spot(page)
    assert (here["head"], here["cell"], here["zoom"]) == ("1", "3, 1", "part")
    page.reload()
    at_step(page, "decoder.1.attention.scores")
    assert spot(page) == here
    page.keyboard.press("ArrowRight")
    at_step(page, "decoder.1.attention.scaled")
    page.keyboard.press("3")
    expect(page.locator("figure[data-head]").first).to_have_attribute("data-head", "2")
    there = spot(page)
    page.go_back()
    page.go_back()
    at_step(page, "decoder.1.attention.scores")
    assert spot(page) == here
    page.go_forward()
    page.go_forward()
    at_step(page, "decoder.1.attention.scaled")
    assert spot(page) == there


def test_another_tab_of_the_browser_lands_in_the_same_place(studio, tab):
    page = tab()
    page.goto(studio.of("vit", step="encoder.0.attention.softmax", head=2))
    at_step(page, "encoder.0.attention.softmax")
    page.locator("figure[data-as=result] [data-row='5'][data-column='7']").click()
    expect(page.locator("[data-terms] header span")).to_have_text("5, 7")
    other = tab()
    other.goto(page.url)
    at_step(other, "encoder.0.attention.softmax")
    assert spot(other) == spot(page)


def test_keys_walk_zoom_choose_heads_play_present_and_help(studio, tab, keep):
    page = tab()
    page.goto(studio.of("gpt", step="decoder.0.attention.query"))
    at_step(page, "decoder.0.attention.query")
    page.keyboard.press("ArrowRight")
    at_step(page, "decoder.0.attention.key")
    page.keyboard.press("ArrowLeft")
    at_step(page, "decoder.0.attention.query")
    for zoom in ("block", "model"):
        page.keyboard.press("ArrowUp")
        expect(page.locator(f"section[data-zoom={zoom}]")).to_be_visible()
        keep(page, f"zoom-{zoom}")
    for zoom in ("block", "part", "cell"):
        page.keyboard.press("ArrowDown")
        expect(page.locator(f"button[data-zoom={zoom}]")).to_have_attribute("aria-current", "true")
    expect(page.locator("figure[data-as=left-row]")).to_be_visible()
    keep(page, "zoom-cell")
    page.keyboard.press("ArrowUp")
    for head in (2, 3, 1):
        page.keyboard.press(str(head))
        expect(page.locator("figure[data-head]").first).to_have_attribute("data-head", str(head - 1))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="keys")).to_be_visible()
    keep(page, "help")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="keys")).to_have_count(0)


def test_space_plays_the_steps_and_stops(studio, tab):
    page = tab()
    page.goto(studio.of("gpt", step="decoder.0.attention.query"))
    at_step(page, "decoder.0.attention.query")
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="stop")).to_have_attribute("aria-pressed", "true")
    at_step(page, "decoder.0.attention.key")
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="play the steps")).to_have_attribute("aria-pressed", "false")
    stays = spot(page)["step"]
    page.wait_for_timeout(2600)  # longer than a step is shown
    assert spot(page)["step"] == stays


FITS = """() => {
  const stage = document.querySelector("[data-stage]").getBoundingClientRect();
  return stage.left >= -1 && stage.top >= -1 && stage.right <= innerWidth + 1 && stage.bottom <= innerHeight + 1;
}"""


@pytest.mark.parametrize("family", FAMILIES)
def test_the_presentation_fills_the_screen_and_cuts_nothing(family, studio, tab, keep):
    page = tab()
    page.goto(studio.of(family, step=LOOKED_AT[family]))
    at_step(page, LOOKED_AT[family])
    page.keyboard.press("p")
    expect(page.locator("[data-fill]")).to_be_visible()
    expect(page.get_by_role("navigation")).to_have_count(0)
    page.wait_for_function(FITS)
    keep(page, f"presentation-{family}")
    page.keyboard.press("Escape")
    expect(page.locator("[data-tab=step]")).to_be_visible()


IS_BRIGHT = """(wanted) => {
  const [red, green, blue] = getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).map(Number);
  return red + green + blue > 380 === wanted;
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_light_and_dark_follow_the_system_and_a_key_changes_them(theme, studio, tab, keep):
    page = tab(theme=theme)
    page.goto(studio.of("gpt", step="decoder.0.attention.softmax"))
    at_step(page, "decoder.0.attention.softmax")
    page.wait_for_function(IS_BRIGHT, arg=theme == "light")
    keep(page, f"step-{theme}")
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", {"light": "dark", "dark": "light"}[theme])
    page.wait_for_function(IS_BRIGHT, arg=theme == "dark")


CUT_OFF = """() => {
  const outside = [];
  for (const element of document.querySelectorAll("header.bar *, nav.tabs *, main > *, aside, .rail")) {
    const box = element.getBoundingClientRect();
    const shown = box.width > 1 && box.height > 1;  // what only a screen reader sees is one pixel large
    if (shown && (box.right > innerWidth + 1 || box.left < -1)) outside.push(element.outerHTML.slice(0, 120));
  }
  return { outside, sideways: document.documentElement.scrollWidth - innerWidth };
}"""


@pytest.mark.parametrize("size", [WIDE, TABLET], ids=lambda size: str(size[0]))
@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_cut_off_at_the_side(family, size, studio, tab, keep):
    page = tab(size)
    page.goto(studio.of(family, step=LOOKED_AT[family]))
    at_step(page, LOOKED_AT[family])
    keep(page, f"size-{size[0]}-{family}")
    for zoom in ("part", "cell", "block", "model"):
        page.locator(f"ol[aria-label=zoom] [data-zoom={zoom}]").click()
        page.wait_for_timeout(50)
        found = page.evaluate(CUT_OFF)
        assert found["outside"] == [] and found["sideways"] <= 0, zoom


def test_every_matrix_cell_is_reached_by_keyboard_and_read_out(studio, tab):
    page = tab()
    page.goto(studio.of("gpt", step="decoder.0.attention.scores"))
    at_step(page, "decoder.0.attention.scores")
    page.locator("figure[data-as=result] [role=gridcell][tabindex='0']").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    said = page.locator("figure[data-as=result] output")
    expect(said).to_have_attribute("data-column", "1")
    expect(said).to_have_text(re.compile(r".+, .+: [−0-9.]+"))
    page.keyboard.press("Enter")
    expect(page.locator("[data-terms] header span")).to_have_text(re.compile(r"\d+, 1"))
    at_step(page, "decoder.0.attention.scores")


def test_the_source_of_a_step_opens_at_its_line(studio, tab, keep):
    page = tab()
    page.goto(studio.of("gpt", step="decoder.0.attention.scores"))
    at_step(page, "decoder.0.attention.scores")
    page.locator("[data-action=source]").click()
    here = page.locator("dialog .here")
    expect(here).to_contain_text('tap("scores"')
    expect(here).to_be_in_viewport()
    keep(page, "source")


def test_two_tabs_with_two_inputs_do_not_mix(studio, tab):
    """Both walk on in turns; each keeps to the tokens of its own input."""
    tabs = {"CBABBC": tab(), "AAB": tab()}
    for text, page in tabs.items():
        page.goto(studio.at(model=studio.runs["gpt"].id, text=text, step="input.tokens"))
        at_step(page, "input.tokens")
    for step in ("one_hot", "embedding", "positions", "sum"):
        for page in tabs.values():
            page.keyboard.press("ArrowRight")
            at_step(page, f"input.{step}")
    for text, page in tabs.items():
        shape = page.locator("figure[data-as=result]")
        expect(shape).to_have_attribute("data-rows", str(len(text)))
        names = page.locator("figure[data-as=result] .sides").inner_text().split()
        assert names == list(text)


def test_a_temperature_moves_the_bars_and_is_part_of_the_address(studio, tab):
    page = tab()
    page.goto(studio.of("vit", step="head.class"))
    at_step(page, "head.class")

    def bars() -> list[float]:
        return [float(one.get_attribute("data-value") or "nan") for one in page.locator(".bars li").all()]

    plain = bars()
    assert sum(plain) == pytest.approx(1, abs=1e-5)
    page.goto(f"{page.url}&temperature=0.1")
    expect(page.get_by_role("slider", name="temperature")).to_have_value("0.1")
    sharp = bars()
    assert sum(sharp) == pytest.approx(1, abs=1e-5) and sharp[0] > plain[0]
