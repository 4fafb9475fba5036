"""The Transformer of 2017: its counts, what its config refuses, and that cached decoding equals the whole pass."""

import copy
import math

import pytest
import torch
from torch import Tensor

from clearhead.errors import ClearheadError
from clearhead.layers import Encoded
from clearhead.models import create
from clearhead.models.transformer import SIZES, Transformer, TransformerConfig
from clearhead.ops import positions
from clearhead.trace import Recorder
from tests.support import equal

SMALL = {"vocab": 11, "context": 12, "width": 12, "layers": 2, "heads": 3, "ff": 20}
VARIANTS = {
    "as published": {},
    "pre-norm": {"norm": "pre"},
    "post-norm with last norms": {"final_norm": True},
    "learned positions": {"positions": "learned"},
    "marian's": {"half_split": True, "output_bias": True, "activation": "silu", "embedding_scaled": False},
    "untied, an own vocabulary": {"tied": "none", "target_vocab": 9},
    "decoder tied, its own sizes": {"tied": "decoder", "decoder_layers": 1, "decoder_heads": 2, "decoder_ff": 7},
}
SOURCES = [[5, 1, 7, 3, 2], [4, 4], [8]]
TARGETS = [[1, 2], [6, 3, 7, 2, 5, 1], [1, 8, 1]]
NEXT = torch.tensor([[3, 1, 4, 1], [2, 7, 1, 8], [6, 6, 0, 5]])


def stirred(config: TransformerConfig) -> Transformer:
    model = Transformer(config).eval()
    model.initialise(torch.Generator().manual_seed(0))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS)
def model(request) -> Transformer:
    return stirred(TransformerConfig(**SMALL | request.param))


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Ragged rows filled up with a token that exists, and their lengths."""
    lengths = torch.tensor([len(row) for row in rows])
    return torch.tensor([row + [8] * (int(lengths.max()) - len(row)) for row in rows]), lengths


def alone(model: Transformer, row: int, steps: int) -> Tensor:
    """The logits behind one row's last token: no cache, no neighbour, no padding."""
    return model(torch.tensor([SOURCES[row]]), torch.tensor([TARGETS[row] + NEXT[row, :steps].tolist()]))[0, -1]


# Counts --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "count"),
    [("transformer-base", 63_082_496), ("transformer-big", 214_245_376), ("transformer-tiny", 2_605_056)],
)
def test_the_published_sizes_are_counted_exactly(name, count):
    assert create(name, device="meta").parameter_count == count


def test_what_a_change_adds_to_the_count():
    base, table = 63_082_496, 37_000 * 512
    counted = {
        "decoder": create("transformer-base", device="meta", tied="decoder").parameter_count - base,
        "none": create("transformer-base", device="meta", tied="none").parameter_count - base,
        "pre": create("transformer-base", device="meta", norm="pre").parameter_count - base,
        "learned": create("transformer-base", device="meta", positions="learned").parameter_count - base,
        "bias": create("transformer-base", device="meta", output_bias=True).parameter_count - base,
    }
    assert counted == {"decoder": table, "none": 2 * table, "pre": 4 * 512, "learned": 2 * 512 * 512, "bias": 37_000}


def test_a_last_norm_comes_with_pre_norm_unless_said_otherwise():
    last = {
        (norm, final): TransformerConfig(norm=norm, final_norm=final).norms_last
        for norm in ("pre", "post")
        for final in (None, True, False)
    }
    assert last == {
        ("pre", None): True,
        ("pre", True): True,
        ("pre", False): False,
        ("post", None): False,
        ("post", True): True,
        ("post", False): False,
    }


# Config --------------------------------------------------------------------------------------------------------------

IMPOSSIBLE = {
    "heads": ({"heads": 7}, "7 heads don't divide a width of 512"),
    "the decoder's heads": ({"decoder_heads": 7}, "7 heads don't divide a width of 512"),
    "no decoder": ({"decoder_layers": 0}, "decoder_layers must be a whole number from 1"),
    "half a vocabulary": ({"target_vocab": 0.5, "tied": "none"}, "target_vocab must be a whole number"),
    "one table of two sizes": (
        {"target_vocab": 5},
        "one table can't have 37000 and 5 rows: give tied='decoder' or 'none'",
    ),
    "tied by a truth": ({"tied": True}, "tied must be one of all, decoder, none, not True"),
    "rotary positions": ({"positions": "rotary"}, "positions must be one of sinusoidal, learned"),
    "endless sinusoids": ({"context": 1 << 17}, "sinusoids are computed for a context of up to 65,536 tokens"),
    "a word for a truth": ({"half_split": "no"}, "half_split must be true or false, not 'no'"),
    "a number for a truth": ({"final_norm": 1}, "final_norm must be true or false, not 1"),
    "no spread": ({"init_std": 0}, "init_std must be above 0"),
    "an epsilon in words": ({"norm_eps": "small"}, "norm_eps must be above 0, not 'small'"),
    "a token beyond the table": ({"pad_token": 37000}, "pad_token must be the number of a token, from 0 to 36999"),
    "two ends": ({"end_token": [0, 1]}, "end_token must be the number of a token"),
    "a start beyond the target's table": (
        {"start_token": 9, "target_vocab": 9, "tied": "none"},
        "start_token must be the number of a token, from 0 to 8, not 9",
    ),
}


@pytest.mark.parametrize(("changes", "message"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_an_impossible_config_is_refused_in_one_line(changes, message):
    with pytest.raises(ClearheadError) as caught:
        TransformerConfig(**changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# Weights -------------------------------------------------------------------------------------------------------------


def test_initial_weights_are_xaviers_with_queries_keys_and_values_each_as_if_alone():
    model = create("transformer-tiny", device="cpu", seed=0)
    alone, expanded = math.sqrt(6 / (128 + 128)), math.sqrt(6 / (128 + 256))
    state = dict(model.named_parameters())
    for name, bound in {
        "encoder.blocks.0.attention.qkv": alone,
        "decoder.blocks.3.cross.key": alone,
        "decoder.blocks.1.attention.out": alone,
        "encoder.blocks.2.feed_forward.up": expanded,
        "decoder.blocks.2.feed_forward.down": expanded,
    }.items():
        assert 0.99 * bound < state[f"{name}.weight"].abs().max() <= bound, name
        assert state[f"{name}.bias"].abs().max() == 0
    assert state["source.tokens.weight"].std().item() == pytest.approx(128**-0.5, rel=0.01)
    assert create("transformer-tiny", device="cpu", seed=0, init_std=0.02).source.tokens.weight.std() < 0.0201


def test_one_table_serves_source_target_and_head_and_stays_one_when_copied():
    model = copy.deepcopy(stirred(TransformerConfig(**SMALL)))
    with torch.no_grad():
        model.source.tokens.weight[3] = 7.0
    assert (model.target.tokens(torch.tensor([3])) == 7).all()
    assert equal(model.head(torch.ones(12))[3], torch.tensor(84.0))
    assert [name for name in model.state_dict() if "tokens" in name or "output" in name] == ["source.tokens.weight"]


@pytest.mark.parametrize("half_split", [False, True])
def test_rows_are_the_tables_times_the_square_root_of_the_width_plus_sinusoids(half_split):
    model = stirred(TransformerConfig(**SMALL, half_split=half_split))
    expected = model.source.tokens.weight[torch.tensor([5, 1, 7])] * math.sqrt(12)
    expected = expected + positions.sinusoidal(3, 12, half_split=half_split)
    assert equal(model.source(torch.tensor([[5, 1, 7]]))[0], expected)


def test_the_bias_of_the_logits_is_added():
    model = stirred(TransformerConfig(**SMALL, output_bias=True))
    assert equal(model.head(torch.zeros(2, 12)), model.output_bias.expand(2, -1))


# Passes --------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_padding_on_either_side_changes_nothing_for_the_true_tokens(model):
    (source, source_lengths), (target, target_lengths) = padded(SOURCES), padded(TARGETS)
    together = model(source, target, source_lengths, target_lengths)
    for row in range(3):
        by_itself = model(torch.tensor([SOURCES[row]]), torch.tensor([TARGETS[row]]))[0]
        assert equal(together[row, : len(TARGETS[row])], by_itself)


@torch.no_grad()
def test_no_target_token_sees_a_later_one_and_every_one_sees_the_whole_source(model):
    source, target = torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5, 6, 7]])
    before = model(source, target)
    later = model(source, torch.tensor([[4, 5, 6, 2]]))
    assert equal(later[:, :3], before[:, :3])
    assert not equal(later[:, 3], before[:, 3])
    with Recorder(model, "*.cross.weights") as trace:
        model(source, target)
    for weights in trace.values.values():
        assert weights.shape[-2:] == (4, 3)
        assert (weights > 0).all()


@torch.no_grad()
def test_hidden_is_decode_of_encode_with_a_memory_for_each_decoder_layer(model):
    (source, lengths), (target, _) = padded(SOURCES), padded(TARGETS)
    encoded = model.encode(source, lengths)
    assert isinstance(encoded, Encoded)
    assert len(encoded.memory) == len(model.decoder.blocks)
    assert encoded.mask.shape == (3, 1, 1, 5)
    assert model.encode(source).mask is None
    assert torch.equal(model.decode(target, encoded), model.hidden(source, target, lengths))


@torch.no_grad()
def test_one_token_at_a_time_equals_the_whole_pass(model):
    source, lengths = padded(SOURCES)
    target = torch.randint(9, (3, 12))
    encoded, cache = model.encode(source, lengths), model.new_cache(3, size=3)
    whole = model(source, target, lengths)
    for step in range(12):
        hidden = model.decode(target[:, step : step + 1], encoded, cache=cache)
        assert equal(model.head(hidden)[:, 0], whole[:, step])


@torch.no_grad()
def test_ragged_targets_of_ragged_sources_decode_as_if_each_were_alone(model):
    (source, source_lengths), (target, target_lengths) = padded(SOURCES), padded(TARGETS)
    encoded, cache = model.encode(source, source_lengths), model.new_cache(3)
    hidden = model.decode(target, encoded, target_lengths, cache)
    last = model.head(hidden[torch.arange(3), target_lengths - 1])
    for steps in range(5):
        assert all(equal(last[row], alone(model, row, steps)) for row in range(3))
        if steps < 4:
            last = model.head(model.decode(NEXT[:, steps : steps + 1], encoded, cache=cache)[:, 0])


@torch.no_grad()
def test_several_tokens_at_once_behind_a_ragged_past_equal_the_whole_pass(model):
    (source, source_lengths), (target, target_lengths) = padded(SOURCES), padded(TARGETS)
    encoded, cache = model.encode(source, source_lengths), model.new_cache(3)
    model.decode(target, encoded, target_lengths, cache)
    last = model.head(model.decode(NEXT, encoded, cache=cache)[:, -1])
    assert all(equal(last[row], alone(model, row, 4)) for row in range(3))


@torch.no_grad()
def test_a_recorded_step_equals_the_unrecorded_one(model):
    source, lengths = padded(SOURCES)
    steps = []
    for recorded in (True, False):
        encoded, cache = model.encode(source, lengths), model.new_cache(3)
        model.decode(NEXT, encoded, cache=cache)
        if recorded:
            with Recorder(model, "*.cross.weights"):
                steps.append(model.decode(NEXT[:, :1], encoded, cache=cache))
        else:
            steps.append(model.decode(NEXT[:, :1], encoded, cache=cache))
    assert equal(*steps)


@torch.no_grad()
def test_a_side_that_outgrows_the_context_is_refused_in_one_line():
    model = stirred(TransformerConfig(**SMALL))
    long, short = torch.zeros(1, 13, dtype=torch.long), torch.zeros(1, 2, dtype=torch.long)
    with pytest.raises(
        ClearheadError, match="^a source of 13 tokens doesn't fit the model's context of 12: shorten it$"
    ):
        model(long, short)
    with pytest.raises(ClearheadError, match="^a target of 13 tokens doesn't fit the model's context of 12"):
        model(short, long)
    encoded, cache = model.encode(short), model.new_cache(1)
    model.decode(long[:, :12], encoded, cache=cache)
    with pytest.raises(ClearheadError, match="a target of 13 tokens"):
        model.decode(long[:, :1], encoded, cache=cache)


def test_dropout_acts_in_training_alone():
    model = Transformer(TransformerConfig(**SMALL, dropout=0.5))
    model.initialise()
    source, target = torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5]])
    assert not torch.equal(model(source, target), model(source, target))
    model.eval()
    assert torch.equal(model(source, target), model(source, target))


def test_an_example_has_rows_of_several_lengths():
    for config in (*SIZES.values(), TransformerConfig(**SMALL | {"context": 1})):
        with torch.device("meta"):
            model = Transformer(config)
        source, target, source_lengths, target_lengths = model.example(3)
        assert source.shape[0] == target.shape[0] == len(source_lengths) == len(target_lengths) == 3
