"""One pass as one file: it opens without server and network, steps like the studio, and its numbers are the model's."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from playwright.sync_api import Page, expect
from typer.testing import CliRunner

import clearhead
from clearhead.cli import explain
from clearhead.data import word_tokenizer
from clearhead.models import create
from clearhead.studio import core
from clearhead.studio.core import Settings
from clearhead.studio.share import LARGEST_PAGE
from clearhead.studio.steps import table
from tests.browser.numbers import number
from tests.browser.runs import Trained
from tests.browser.test_walk import HEAD, READ, check, expected
from tests.browser.truth import Truth

pytestmark = pytest.mark.xdist_group("browser-walk")

MADE_BY = {"gpt": "command", "transformer": "command", "bert": "button", "t5": "button", "vit": "button"}
WALKED = ("gpt",)  # from the first step to the last; of the others every seventh step is opened
EVERY = 7


@pytest.fixture
def explained(built_page, monkeypatch, tmp_path) -> Callable[[Path, dict[str, str]], Path]:
    """The file that `clearhead explain` writes of a folder and an input."""
    monkeypatch.setattr(core, "Settings", functools.partial(Settings, page=built_page))
    cli = typer.Typer()
    cli.command()(explain.command)

    def write(folder: Path, inputs: dict[str, str]) -> Path:
        first, *rest = inputs.items()
        options = [word for name, value in rest for word in (f"--{name}", value)]
        done = CliRunner().invoke(cli, [str(folder), first[1], *options, "-o", str(tmp_path / "page.html")])
        assert done.exit_code == 0, (done.output, done.exception)
        return tmp_path / "page.html"

    return write


def downloaded(page: Page, folder: Path) -> Path:
    """The file that the Share button writes of what is open."""
    page.locator("[data-tab=share] button").first.click()
    with page.expect_download() as waited:
        page.locator("[data-share=page]").click()
    file = folder / waited.value.suggested_filename
    waited.value.save_as(file)
    told = page.locator("[data-share-made]")
    expect(told).to_have_attribute("data-share-made", file.name)
    assert number(told, "bytes") == file.stat().st_size
    return file


def opened(tab, file: Path, **spot: str) -> tuple[Page, list[str]]:
    """The file in a browser without a network, and everything that it asks for."""
    page, asked = tab(offline=True), []
    page.context.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri() + ("#" + "&".join(f"{name}={value}" for name, value in spot.items()) if spot else ""))
    expect(page.locator("[data-stage] figure.mat").first).to_be_visible()
    return page, asked


def outside(asked: list[str], file: Path) -> list[str]:
    return [url for url in asked if not url.startswith((file.as_uri(), "data:", "blob:"))]


@pytest.mark.parametrize("family", MADE_BY)
def test_a_shared_file_steps_offline_and_its_cells_are_the_models_own(family, studio, tab, keep, explained, tmp_path):
    run = studio.runs[family]
    if MADE_BY[family] == "command":
        file = explained(run.folder, run.inputs)
    else:
        page = tab(accept_downloads=True)
        page.goto(studio.of(family))
        expect(page.locator("[data-stage] figure.mat").first).to_be_visible()
        file = downloaded(page, tmp_path)
    assert file.stat().st_size <= LARGEST_PAGE
    page, asked = opened(tab, file, head=str(HEAD + 1))
    keep(page, f"shared-{family}")
    truth = Truth.of(run)
    steps = {step.id: step for step in table(truth.model, truth.trace)[1]}
    names = expected(family)
    for n, name in enumerate(names):
        if family not in WALKED and n % EVERY:
            continue
        if family not in WALKED:
            page.evaluate("(step) => (location.hash = `head=2&step=${step}`)", name)
        check(steps[name], page.evaluate(READ, name), truth)
        page.keyboard.press("ArrowRight")
    assert outside(asked, file) == []
    said = page.locator("[data-tab]").evaluate_all("(all) => all.map((one) => one.dataset.tab)")
    assert said == ["step", "attention", "share"]


def test_the_file_opens_where_it_was_shared_and_shows_its_heads(studio, tab, keep, tmp_path):
    page = tab(accept_downloads=True)
    page.goto(studio.of("gpt", step="decoder.1.attention.softmax", head=2, cell="4,3"))
    expect(page.locator("[data-terms] header span")).to_have_text("4, 3")
    file = downloaded(page, tmp_path)
    keep(page, "share-made")
    page, asked = opened(tab, file)
    expect(page.locator("[data-stage]")).to_have_attribute("data-stage", "decoder.1.attention.softmax")
    expect(page.locator("[data-terms] header span")).to_have_text("4, 3")
    expect(page.locator("figure[data-as=result]")).to_have_attribute("data-head", "1")
    page.locator("button[data-tab=attention]").click()
    cell = page.locator("figure[data-as=weights] [data-row='4'][data-column='3']")
    weights = Truth.of(studio.runs["gpt"]).trace["decoder.blocks.1.attention.weights"]
    assert number(cell, "value") == pytest.approx(weights[0, 1, 4, 3].item(), abs=1e-6)
    keep(page, "shared-attention")
    page.locator("[data-tab=share] button").first.click()
    expect(page.get_by_role("dialog", name="what is in this file")).to_contain_text("Nothing was left out.")
    assert outside(asked, file) == []


@pytest.fixture(scope="module")
def wide(browser, tmp_path_factory) -> Trained:
    """A GPT whose weights alone are larger than a page may be."""
    tok = word_tokenizer(["the cat sees a dog and the dog sees it"])
    model = create("gpt2", vocab=tok.size, context=16, width=512, layers=2, heads=4, seed=0, device="cpu")
    folder = tmp_path_factory.mktemp("wide") / "gpt-wide"
    return Trained("gpt", clearhead.save(model, folder, tokenizer=tok), {"text": "the cat sees a dog"})


def test_a_pass_that_does_not_fit_says_what_was_left_out_and_shows_the_rest(wide, tab, keep, explained):
    file = explained(wide.folder, wide.inputs)
    assert LARGEST_PAGE / 5 < file.stat().st_size <= LARGEST_PAGE
    page, asked = opened(tab, file)
    expect(page.locator("[data-notes]")).to_contain_text("Weights left out")
    page.locator("[data-tab=share] button").first.click()
    listed = page.locator("[data-left-out]").evaluate_all("(all) => all.map((one) => one.dataset.leftOut)")
    document = page.evaluate("JSON.parse(document.getElementById('clearhead-shared').textContent).left_out")
    assert sorted(listed) == sorted(one["key"] for one in document)
    assert "weight:decoder.blocks.1.feed_forward.up" in listed
    page.keyboard.press("Escape")
    page.evaluate("location.hash = 'step=decoder.1.feed_forward.expanded&cell=2,7'")
    expect(page.locator("[data-partly]")).to_have_attribute("data-stage", "decoder.1.feed_forward.expanded")
    said = page.locator("[data-problem]")
    expect(said).to_contain_text("Left out of this page")
    expect(said).to_contain_text(
        "decoder.blocks.1.feed_forward.up.weight is not in this page: the page would be too large"
    )
    value = page.locator("figure[data-as=result] output")
    expect(value).to_have_attribute("data-row", "2")
    record = clearhead.record(clearhead.load(wide.folder, device="cpu"), wide.inputs["text"])
    computed = record["decoder.blocks.1.feed_forward.expanded"][0, 2, 7].item()
    assert number(value, "value") == pytest.approx(computed, abs=1e-5)
    keep(page, "shared-left-out")
    assert outside(asked, file) == []
