"""The Decode tab: what is drawn is what `decode` computes, step by step, and as it is written."""

import math
import threading
from typing import Any, NamedTuple

import pytest
import torch
from playwright.sync_api import Page, expect
from torch import Tensor

import clearhead
from clearhead.decode import Beams, Sampling, beam_search, compare_modes
from clearhead.models import Model
from clearhead.studio import decoding
from clearhead.tasks.writer import Writer, writer
from tests.browser.numbers import number, numbers, rows

pytestmark = pytest.mark.xdist_group("browser-walk")


@pytest.fixture(scope="module")
def translator(studio) -> tuple[Writer, str]:
    run = studio.runs["transformer"]
    return writer(clearhead.load(run.folder, device="cpu")), run.inputs["source"]


def decoded(page: Page, studio: Any, mode: str, family: str = "transformer", **settings: Any) -> None:
    """Open the tab in a mode, and wait until all is written."""
    named = {f"d-{name.replace('_', '-')}": value for name, value in settings.items()}
    page.goto(studio.of(family, tab="decode", **{"d-mode": mode}, **named))
    expect(page.locator(f"[data-decode={mode}]:not([data-busy])")).to_be_visible()
    expect(page.locator("[data-step-open], [data-tree], [data-places]").first).to_be_visible()


def logits(model: Model, source: list[int], shown: list[int]) -> Tensor:
    with torch.no_grad():
        return model(torch.tensor([source]), torch.tensor([shown]))[0, -1]


def test_every_step_of_a_draw_shows_its_own_chances_when_the_slider_stands_there(studio, tab, keep, translator):
    settings = {"temperature": 1.5, "top_k": 8, "top_p": 0.9, "seed": 5, "length": 8}
    page = tab()
    decoded(page, studio, "sample", **settings)
    writes, source = translator
    drawn = clearhead.generate(writes.model, source, **settings)[0]
    chips = page.get_by_role("toolbar", name="the tokens that were written").locator("[data-chip]")
    assert numbers(chips, "id") == list(drawn.tokens)
    keep(page, "decode-sample")
    page.get_by_role("button", name="all 20 that were sent").click()
    slider = page.get_by_role("slider", name="step")
    slider.press("Home")
    open_, shown, total = page.locator("[data-step-open]"), [writes.model.start_token], 0.0
    for step, (token, logprob) in enumerate(zip(drawn.tokens, drawn.logprobs, strict=True), 1):
        expect(open_).to_have_attribute("data-step-open", str(step))
        total += logprob
        assert (number(open_, "token"), number(open_, "cached")) == (token, step)
        assert number(open_, "logprob") == pytest.approx(logprob, abs=1e-5)
        assert number(page.locator("[data-sum]"), "sum") == pytest.approx(total, abs=1e-5)
        check_choices(page, writes, logits(writes.model, writes.ids(source), shown), shown)
        shown.append(token)
        slider.press("ArrowRight")
    slider.press("Home")  # and back
    expect(open_).to_have_attribute("data-step-open", "1")
    check_choices(page, writes, logits(writes.model, writes.ids(source), shown[:1]), shown[:1])


def check_choices(page: Page, writes: Writer, own: Tensor, shown: list[int]) -> None:
    """Before: the model's own chances. After: what temperature and filters make of them."""
    possible = own.clone()
    possible[sorted(writes.never)] = -math.inf
    after = Sampling(1.5, 8, 0.9).scores(possible[None], [shown])[0].softmax(-1)
    chances = own.log_softmax(-1)
    told = rows(page.locator("[data-choice]"), "choice", "logprob", "before", "after", "cut")
    assert [int(one[0]) for one in told[:20]] == chances.topk(20).indices.tolist()
    for id, logprob, before, left, cut in told:
        own_chance, left_of_it = chances[int(id)].item(), after[int(id)].item()
        assert float(logprob) == pytest.approx(own_chance, abs=1e-5)
        assert float(before) == pytest.approx(math.exp(own_chance), abs=1e-6)
        assert float(left) == pytest.approx(left_of_it, abs=1e-5)
        assert (cut is None) == (left_of_it > 0)


def test_tokens_and_their_chances_are_there_while_the_text_is_being_written(studio, tab, keep, monkeypatch):
    """The server is held behind its third token: the page shows three, and the rest when it goes on."""
    go_on, write = threading.Event(), decoding.steps

    def held(*given: Any) -> Any:
        for made, step in enumerate(write(*given)):
            assert made < 3 or go_on.wait(30)
            yield step

    monkeypatch.setattr(decoding, "steps", held)
    page = tab()
    page.goto(studio.of("transformer", tab="decode", **{"d-mode": "sample", "d-length": 7, "d-seed": 2}))
    try:
        written = page.locator("[data-written]")
        expect(written).to_have_attribute("data-written", "3")
        expect(written).to_have_text("writing, 3 so far")
        expect(page.locator("[data-step-open]")).to_have_attribute("data-step-open", "3")
        assert sum(numbers(page.locator("[data-choice]"), "before")) > 0.3
        keep(page, "decode-live")
    finally:
        go_on.set()
    expect(written).to_have_attribute("data-written", "7")
    expect(page.locator("[data-step-open]")).to_have_attribute("data-step-open", "7")  # it follows what is newest


def test_the_tree_of_a_beam_search_has_the_scores_of_the_search(studio, tab, keep, translator):
    page = tab()
    decoded(page, studio, "beam", beams=3, length_penalty=0.6, length=7)
    keep(page, "decode-beam")
    writes, source = translator
    found = beam_search(
        writes.model,
        [writes.ids(source)],
        Beams(3, 0.6, length=7),
        end=writes.end,
        never=writes.never,
        prefix=writes.prefix,
        tree=True,
    )[0]
    nodes = nodes_of(page)
    assert len(nodes) == len(found.tree) == number(page.locator("[data-tree]"), "tree")
    for shown, node in zip(nodes, found.tree, strict=True):
        assert shown == (-1 if node.parent is None else node.parent, node.token, node.step, node.score, node.logprob)
        assert shown.score == pytest.approx(shown.logprob / shown.step**0.6)
    fates = {int(node): fate for node, fate in rows(page.locator("[data-node][data-fate]"), "node", "fate")}
    assert [fates[n] for n in range(len(nodes))] == [node.fate for node in found.tree]
    assert numbers(page.locator("[data-answer]"), "score") == [one.score for one in found.finished]


class Node(NamedTuple):
    parent: int
    token: int
    step: int
    score: float
    logprob: float


def nodes_of(page: Page) -> list[Node]:
    """The nodes of the drawn tree by their numbers; what stands behind the beginning has the parent -1."""
    told = rows(page.locator("[data-node][data-score]"), "node", "parent", "token", "step", "score", "logprob")
    found = {
        int(node): Node(int(parent), int(token), int(step), float(score), float(logprob))
        for node, parent, token, step, score, logprob in told
    }
    return [found[n] for n in range(len(found))]


def test_beside_the_tree_stands_where_the_chosen_way_looked_in_the_source(studio, tab, keep, translator):
    page = tab()
    decoded(page, studio, "beam", beams=2, length=6)
    writes, source = translator
    nodes = nodes_of(page)
    for chosen in (next(n for n, one in enumerate(nodes) if one.step == 3), len(nodes) - 1):
        page.locator(f"[data-node='{chosen}']").click(force=True)
        way = path_to(nodes, chosen)
        expect(page.locator(f"[data-open='{chosen}']")).to_have_attribute("data-path", ",".join(map(str, way)))
        for layer, head in ((1, None), (2, 1), (2, 2), (1, None)):
            choose(page, layer, head)
            check_cross(page, writes, source, [nodes[n].token for n in way], layer - 1, head)
    keep(page, "decode-cross")


def path_to(nodes: list[Node], node: int) -> list[int]:
    return [] if node < 0 else [*path_to(nodes, nodes[node].parent), node]


def choose(page: Page, layer: int, head: int | None) -> None:
    expect(page.locator("[data-cross=grid] select").first).to_be_visible()
    page.get_by_label("decoder block").select_option(str(layer))
    page.get_by_label("head of cross-attention").select_option("mean" if head is None else str(head))
    for show in ("row", "grid"):
        shown = page.locator(f"[data-cross={show}][data-layer='{layer - 1}']")
        expect(shown).to_have_attribute("data-head", "mean" if head is None else str(head - 1))


def check_cross(page: Page, writes: Writer, source: str, tokens: list[int], layer: int, head: int | None) -> None:
    """The row of the last token of the way, and the whole way as a grid, against a pass over it."""
    ids, begin = writes.ids(source), [writes.model.start_token]
    trace = clearhead.record(writes.model, (torch.tensor([ids]), torch.tensor([[*begin, *tokens[:-1]]])))
    weights = trace[f"decoder.blocks.{layer}.cross.weights"][0]
    own = weights.mean(0) if head is None else weights[head - 1]
    assert numbers(page.locator("[data-cross=row] [data-weight]"), "weight") == pytest.approx(
        own[-1].tolist(), abs=1e-6
    )
    grid = numbers(page.locator("figure[data-as=alignment] .body [data-value]"), "value")
    assert grid == pytest.approx(own.flatten().tolist(), abs=1e-6)


def test_taught_and_tested_the_slider_shows_what_is_known_at_that_step(studio, tab, keep, translator):
    page = tab()
    decoded(page, studio, "compare")
    writes, source = translator
    target = [*writes.target.ids(studio.runs["transformer"].inputs["target"], special=False), min(writes.end)]
    modes = compare_modes(writes.model, writes.ids(source), target, writes.end, writes.never, writes.prefix)
    forced = page.locator("[data-forced]")
    assert numbers(forced, "forced") == [one.token for one in modes.forced]
    assert numbers(forced, "probability") == pytest.approx([one.probability for one in modes.forced], abs=1e-6)
    true = [one.true_probability for one in modes.forced]
    assert numbers(forced, "true-probability") == pytest.approx(true, abs=1e-6)
    slider = page.get_by_role("slider", name="decoding step")
    slider.press("Home")
    for step in range(1, len(target) + 1):
        expect(slider).to_have_attribute("data-time", str(step - 1))
        free, known = page.locator("[data-free]"), modes.free[:step]
        assert numbers(free, "free") == [one.token for one in known]
        assert numbers(free, "probability") == pytest.approx([one.probability for one in known], abs=1e-6)
        if step == 4:
            keep(page, "decode-taught-and-tested")
        slider.press("ArrowRight")


def test_a_model_that_goes_on_with_a_text_writes_what_the_command_writes(studio, tab):
    page = tab()
    decoded(page, studio, "greedy", "gpt", length=5)
    run = studio.runs["gpt"]
    expected = clearhead.generate(clearhead.load(run.folder, device="cpu"), run.inputs["text"], length=5)[0]
    expect(page.locator("[data-text]")).to_have_attribute("data-text", expected.text)
    expect(page.locator("[data-step-open]")).to_have_attribute("data-cached", str(len(run.inputs["text"]) + 4))
