"""Matrices by their keys: views where nothing needs computing, the model's own numbers where something does."""

from pathlib import Path

import pytest
import torch

from clearhead import studio
from clearhead.errors import ClearheadError
from clearhead.models.registry import FAMILIES
from clearhead.ops import masks
from clearhead.studio.steps import Matrices, table
from clearhead.studio.steps.derived import RULES
from clearhead.tasks.record import record


def matrices(family: str, **changes: object) -> Matrices:
    entry, random = FAMILIES[family], torch.Generator().manual_seed(1)
    model = entry.model(entry.shrunken.with_changes(**changes)).eval()
    model.initialise(random)
    return Matrices(model, record(model, model.example(2, random)))


def test_the_tied_head_is_a_view_of_the_embedding_table() -> None:
    known = matrices("gpt")
    head = known.get("weight:input.tokens.T")
    assert head.shape == (24, 101)
    assert head.data_ptr() == known.model.input.tokens.weight.data_ptr()


def test_a_recorded_site_is_a_view_of_the_trace() -> None:
    known = matrices("gpt")
    logits = known.get("site:logits")
    assert logits.data_ptr() == known.trace["logits"].data_ptr()


def test_a_part_is_the_same_as_that_part_of_the_whole() -> None:
    known, rows, columns = matrices("gpt"), slice(2, 5), slice(7, 31)
    for key in ("derived:logits.probabilities", "derived:input.one_hot", "site:logits", "weight:input.tokens.T"):
        assert torch.equal(known.get(key, 0, rows, columns), known.get(key)[rows, columns]), key


def test_probabilities_sum_to_one_and_the_chosen_are_their_best() -> None:
    known = matrices("gpt")
    shares = known.get("derived:logits.probabilities")
    assert torch.allclose(shares.sum(-1), torch.ones(len(shares)))
    assert torch.equal(known.get("derived:logits.chosen")[:, 0], shares.argmax(-1).float())


def test_one_hot_has_its_one_at_the_tokens_number() -> None:
    known = matrices("gpt")
    assert torch.equal(known.get("derived:input.one_hot").argmax(-1), known.trace["input.ids"][0])
    assert torch.equal(known.get("derived:input.one_hot").sum(-1), torch.ones(12))


def test_the_look_ahead_mask_is_the_triangle() -> None:
    known = matrices("gpt")
    assert torch.equal(known.get("derived:decoder.blocks.0.attention.allowed").bool(), masks.causal(12))


def test_segments_are_found_again() -> None:
    known = matrices("bert")
    assert known.get("derived:input.segment_ids")[:, 0].tolist() == [0.0] * 6 + [1.0] * 6


def test_a_head_that_shares_keys_is_given_those_of_its_group() -> None:
    known = matrices("gpt", heads=4, head_width=6, kv_heads=2)
    key = "site:decoder.blocks.0.attention.key"
    assert known.find(key).heads == 4
    assert torch.equal(known.get(key, 0), known.get(key, 1)) and not torch.equal(known.get(key, 1), known.get(key, 2))


def test_the_range_is_of_finite_values_alone() -> None:
    known = matrices("gpt")
    masked = known.get("site:decoder.blocks.1.attention.masked", 2)
    finite = masked[torch.isfinite(masked)]
    assert known.range("site:decoder.blocks.1.attention.masked", 2) == (finite.min().item(), finite.max().item())
    assert known.range("derived:input.one_hot") == (0.0, 1.0)
    assert known.range("weight:input.tokens.T") == known.range("weight:input.tokens")


def test_a_large_range_is_found_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    known = matrices("gpt")
    whole = known.get("site:logits")
    monkeypatch.setattr("clearhead.studio.steps.matrices.CHUNK", 150)
    assert known.range("site:logits") == (whole.min().item(), whole.max().item())


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("logits", "begins with site:"),
        ("site:decoder.blocks.9.attention.scores", "was not recorded"),
        ("site:logitz", "did you mean 'logits'"),
        ("weight:decoder.blocks.9.attention.query", "there is no matrix"),
        ("weight:nothing", "there is no matrix"),
        ("weight:__class__", "can't read a weight"),
        ("weight:decoder", "can't read a weight"),
        ("weight:decoder.norm.bias.bias", "can't read a bias"),
        ("weight:decoder.norm.gain", "there is no matrix"),
        ("derived:input.nonsense", "nothing is derived"),
        ("derived:nowhere.one_hot", "there is no matrix"),
        ("derived:decoder.position_bias", "there is no matrix"),
        ("derived:input.ids.straight", "not a SelfAttention"),
        ("derived:decoder.blocks.0.attention.query.along", "nothing is turned"),
        ("site:logits.T.T.X", "was not recorded"),
    ],
)
def test_an_unknown_key_is_refused_in_one_line(key: str, why: str) -> None:
    with pytest.raises(ClearheadError, match=why) as refused:
        matrices("gpt").get(key)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_key_from_outside_gets_past_the_refusals(family: str) -> None:
    """Every rule at every module and site: numbers come, or one line."""
    known = matrices(family)
    places = {"", *(name for name, _ in known.model.named_modules()), *known.trace}
    some = [place for place in places if "blocks.1" not in place]
    keys = [f"derived:{at}.{rule}" for at in some for rule in RULES] + [f"weight:{at}" for at in some]
    for key in keys:
        try:
            assert known.get(key).shape == known.shape(key)
        except ClearheadError as refused:
            assert "\n" not in str(refused)


def test_a_head_that_is_not_there_is_refused() -> None:
    with pytest.raises(ClearheadError, match="has 3 heads, from 0: there is no head 3"):
        matrices("gpt").get("site:decoder.blocks.0.attention.scores", 3)


def test_weights_in_eight_bits_are_refused_and_not_shown_as_whole_numbers() -> None:
    from clearhead.layers import quantise

    known = matrices("gpt")
    known = Matrices(quantise(known.model), known.trace)
    for key in (
        "weight:decoder.blocks.0.attention.query",
        "weight:input.tokens",
        "weight:decoder.blocks.0.attention.out",
    ):
        with pytest.raises(ClearheadError, match="can't read a weight"):
            known.get(key)


def test_a_table_stands_though_sites_were_left_out_and_their_numbers_are_refused() -> None:
    entry = FAMILIES["gpt"]
    model = entry.model(entry.shrunken).eval()
    model.initialise(torch.Generator().manual_seed(1))
    ids = model.example(1, torch.Generator().manual_seed(1))
    whole, some = record(model, ids), record(model, ids, max_bytes=20_000)
    assert some.left_out
    assert [step.id for step in table(model, some)[1]] == [step.id for step in table(model, whole)[1]]
    with pytest.raises(ClearheadError, match="site 'logits' was left out"):
        Matrices(model, some).get("derived:logits.probabilities")
    with pytest.raises(ClearheadError, match="was left out"):
        Matrices(model, some).range("site:logits")


def test_the_steps_need_no_web_framework() -> None:
    package = Path(studio.__file__).parent
    files = [package / "__init__.py", package / "schema.py", *(package / "steps").glob("*.py")]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    assert "import fastapi" not in text and "from fastapi" not in text and len(files) > 10
