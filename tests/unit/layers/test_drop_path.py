"""Drop path against timm's with the same seed, its statistics, and its place in a block."""

import pytest
import torch

from clearhead.errors import ClearheadError
from clearhead.layers import BLOCKS, FeedForward, Heads, LayerNorm, Pass, SelfAttention
from clearhead.layers.drop_path import dropped_rows
from clearhead.layers.stack import set_drop_path
from clearhead.models import FAMILIES, Model
from clearhead.trace import Recorder
from tests.support import equal, peer


def small(family: str, **changes) -> Model:
    made = FAMILIES[family].model(FAMILIES[family].shrunken.with_changes(**changes))
    made.initialise(torch.Generator().manual_seed(0))
    torch.nn.init.normal_(made.get_parameter("output.weight")) if family == "vit" else None
    return made


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_rows_are_dropped_as_timm_drops_them(rate):
    theirs, x = peer("timm.layers").DropPath(rate).train(), torch.randn(32, 3, 5)
    torch.manual_seed(7)
    mine = dropped_rows(x, rate, True)
    torch.manual_seed(7)
    assert torch.equal(mine, theirs(x))
    assert not torch.equal(mine, x)


def test_a_row_is_whole_or_gone_and_the_mean_stays():
    kept = dropped_rows(torch.ones(20000, 2, 3), 0.3, True)
    rows = kept[:, 0, 0]
    assert torch.equal(kept, rows[:, None, None].expand_as(kept))
    assert set(rows.tolist()) == {0.0, rows.max().item()} and rows.max().item() == pytest.approx(1 / 0.7)
    assert rows.mean().item() == pytest.approx(1.0, abs=0.02)


def test_off_it_gives_back_the_same_tensor_and_draws_no_number():
    x, before = torch.randn(4, 2), torch.get_rng_state()
    assert dropped_rows(x, 0.0, True) is x and dropped_rows(x, 0.5, False) is x
    assert torch.equal(torch.get_rng_state(), before)


def test_rates_grow_evenly_to_the_last_block_of_each_stack_as_timms_do():
    rates = peer("timm.layers").calculate_drop_path_rates(0.3, 4)
    model = small("transformer", layers=4, decoder_layers=2)
    set_drop_path(model, 0.3)
    assert [block.drop_path for block in model.encoder.blocks] == pytest.approx(rates)
    assert [block.drop_path for block in model.decoder.blocks] == pytest.approx([0.0, 0.3])
    set_drop_path(model, 0.0)
    assert all(block.drop_path == 0 for block in model.encoder.blocks)


@pytest.mark.parametrize("kind", BLOCKS)
def test_what_a_dropped_row_adds_is_nothing(kind):
    block = BLOCKS[kind](SelfAttention(12, Heads.of(12, 3)), FeedForward(12, 20, "relu"), lambda: LayerNorm(12)).train()
    block.drop_path = 0.5
    x = torch.randn(16, 5, 12)
    torch.manual_seed(3)
    ours = block(x, Pass(), 0)
    torch.manual_seed(3)
    masks = [torch.empty(16, 1, 1).bernoulli_(0.5) * 2 for _ in range(2)]
    expected = x
    for mask, norm, part in zip(
        masks, (block.attention_norm, block.feed_forward_norm), (block.attention, block.feed_forward), strict=True
    ):
        if kind == "pre":
            expected = expected + mask * part(norm(expected))
        else:
            expected = norm(expected + mask * part(expected))
    assert equal(ours, expected)
    assert not equal(ours, block.eval()(x, Pass(), 0))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_familys_training_notices_it_and_its_evaluation_does_not(family):
    model = small(family)
    inputs = model.example(4, torch.Generator().manual_seed(1))

    def hidden() -> torch.Tensor:
        torch.manual_seed(0)
        return model.hidden(*inputs)

    model.eval()
    still = hidden()
    set_drop_path(model, 0.6)
    assert torch.equal(hidden(), still)
    model.train()
    assert not equal(hidden(), still)
    set_drop_path(model, 0.0)
    assert equal(hidden(), still)


def test_a_trace_in_evaluation_is_untouched():
    model = small("vit").eval()
    inputs = model.example(2)

    def trace() -> dict[str, torch.Tensor]:
        with Recorder(model) as seen:
            model(*inputs)
        return dict(seen)

    before = trace()
    set_drop_path(model, 0.5)
    after = trace()
    assert list(before) == list(after) and all(torch.equal(before[site], after[site]) for site in before)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_a_model_compiles_without_a_break(rate):
    model = small("vit").train()
    set_drop_path(model, rate)
    inputs = model.example(64)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    out = compiled(*inputs)
    out.sum().backward()
    assert out.isfinite().all()
    set_drop_path(model, 0.0)
    assert equal(out, model(*inputs)) == (rate == 0)


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_an_impossible_rate_is_refused(rate):
    with pytest.raises(ClearheadError, match="drop_path must be at least 0 and below 1"):
        set_drop_path(small("vit"), rate)


def test_a_model_without_blocks_is_refused():
    with pytest.raises(ClearheadError, match="a Linear has no stack of blocks"):
        set_drop_path(torch.nn.Linear(2, 2), 0.1)
