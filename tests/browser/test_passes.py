"""Kept passes are bounded: one that was dropped is said to be, is made again, and never mixed up with another."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import clearhead
from clearhead.models import Model
from clearhead.studio.steps import table
from tests.browser.conftest import Served, serving
from tests.browser.numbers import rows

pytestmark = pytest.mark.xdist_group("browser-walk")

FIRST, SECOND = "CBABBC", "AACCBB"
AGAIN = "so it was run again"
STEPS = ("decoder.0.attention.scaled", "decoder.1.attention.query", "decoder.1.attention.softmax", "head.logits")


@dataclass(frozen=True)
class Tight:
    """A studio that has room for one pass of six letters, and not for two."""

    served: Served
    model: Model

    def at(self, text: str, **spot: str) -> str:
        return self.served.at(model=self.served.runs["gpt"].id, text=text, **spot)


@pytest.fixture(scope="module")
def tight(built_page, studio, tmp_path_factory) -> Iterator[Tight]:
    run = studio.runs["gpt"]
    model = clearhead.load(run.folder, device="cpu")
    room = clearhead.record(model, FIRST).nbytes * 3 // 2
    with serving(built_page, tmp_path_factory.mktemp("root"), run.folder, trace_bytes=room) as address:
        yield Tight(Served(address, {"gpt": run}), model)


def at_step(page: Page, step: str) -> None:
    expect(page.locator("[data-stage]")).to_have_attribute("data-stage", step)


def check_cells(page: Page, tight: Tight, text: str) -> None:
    """What the stage shows is this text's own, to the last digit."""
    step = page.locator("[data-stage]").get_attribute("data-stage")
    trace = clearhead.record(tight.model, text)
    made = next(one for one in table(tight.model, trace)[1] if one.id == step)
    value = trace[made.result.key.removeprefix("site:")][0]
    value = value[0] if value.ndim == 3 else value
    cells = rows(page.locator("figure[data-as=result] .body [data-value]"), "row", "column", "value")
    assert len(cells) == value.numel()
    assert all(np.float32(shown) == np.float32(value[int(row), int(column)].item()) for row, column, shown in cells)


def test_a_dropped_pass_is_made_again_when_it_is_needed_and_the_page_says_so(tight, tab, keep):
    first, second = tab(), tab()
    first.goto(tight.at(FIRST, step="decoder.0.attention.query"))
    at_step(first, "decoder.0.attention.query")
    expect(first.locator("[data-notes]")).to_have_count(0)
    second.goto(tight.at(SECOND, step="decoder.0.attention.query"))
    at_step(second, "decoder.0.attention.query")
    expect(second.locator("[data-notes]")).to_contain_text("Forgotten to make room: 1 earlier pass")
    keep(second, "pass-that-took-the-room")

    first.locator("[data-step='decoder.0.attention.softmax']").first.click()  # far enough: not read ahead
    at_step(first, "decoder.0.attention.softmax")
    expect(first.locator("[data-notes]")).to_contain_text(AGAIN)
    expect(first.locator("[data-problem]")).to_have_count(0)
    check_cells(first, tight, FIRST)
    keep(first, "pass-made-again")
    expect(second.locator("[data-notes]")).not_to_contain_text(AGAIN)


@pytest.mark.parametrize("name", ["attention", "decode", "words", "what-if"])
def test_a_dropped_pass_is_made_again_in_every_tab(name, tight, tab):
    page, other = tab(), tab()
    page.goto(tight.at(FIRST))
    at_step(page, "input.tokens")
    other.goto(tight.at(SECOND))
    at_step(other, "input.tokens")
    page.locator(f"button[data-tab={name}]").click()
    expect(page.locator("main figure, main svg, main table").first).to_be_visible()
    expect(page.locator("[data-problem], [role=alert]")).to_have_count(0)


def test_a_dropped_pass_can_still_be_shared(tight, tab, tmp_path):
    page, other = tab(accept_downloads=True), tab()
    page.goto(tight.at(FIRST))
    at_step(page, "input.tokens")
    other.goto(tight.at(SECOND))
    at_step(other, "input.tokens")
    page.locator("[data-tab=share] button").first.click()
    with page.expect_download() as waited:
        page.locator("[data-share=page]").click()
    waited.value.save_as(tmp_path / "page.html")
    assert FIRST in Path(tmp_path / "page.html").read_text(encoding="utf-8")
    expect(page.locator("[data-problem]")).to_have_count(0)


def test_two_tabs_that_take_each_others_room_in_turns_do_not_mix(tight, tab):
    tabs = {FIRST: tab(), SECOND: tab()}
    for text, page in tabs.items():
        page.goto(tight.at(text, step="decoder.0.attention.query"))
        at_step(page, "decoder.0.attention.query")
    for step in STEPS:
        for text, page in tabs.items():
            page.goto(tight.at(text, step=step))
            at_step(page, step)
            check_cells(page, tight, text)
            assert page.locator("figure[data-as=result] .sides").inner_text().split() == list(text)
