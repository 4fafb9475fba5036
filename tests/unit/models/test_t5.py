"""T5: counts, what its config refuses, its sites in both versions, and decoding with a cache step by step."""

import copy
import re

import pytest
import torch
from torch import Tensor

import clearhead
from clearhead.errors import ClearheadError
from clearhead.layers import Encoded
from clearhead.models import create, list_models
from clearhead.models.t5 import FAMILY, T5, T5Config
from clearhead.trace import sites_of
from tests.support import equal

COUNTS = {
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-3b": 2_851_598_336,
    "t5-11b": 11_307_321_344,
    "t5-v1.1-small": 76_961_152,
    "t5-v1.1-base": 247_577_856,
    "t5-v1.1-large": 783_150_080,
    "t5-v1.1-xl": 2_849_757_184,
    "t5-v1.1-xxl": 11_135_332_352,
}
SMALL = {"vocab": 31, "width": 12, "layers": 2, "heads": 3, "head_width": 5, "ff": 20, "buckets": 6, "max_distance": 7}
V1_0 = SMALL
V1_1 = SMALL | {"gated": True, "activation": "gelu-tanh", "tied": False, "output_scaled": False}


def made(**changes: object) -> T5:
    """A small T5 with weights large enough that attention is not flat."""
    model = T5(T5Config(**SMALL | {"dropout": 0.0} | changes)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.4)
    return model


def test_every_published_size_has_its_exact_count():
    assert {entry.name: entry.params for entry in list_models() if entry.family == "t5"} == COUNTS


def test_the_papers_figures_stand_beside_the_counts_of_the_first_version():
    said = {entry.name: entry.paper for entry in list_models() if entry.family == "t5" and entry.paper}
    assert said == {"t5-small": "60M", "t5-base": "220M", "t5-large": "770M", "t5-3b": "3B", "t5-11b": "11B"}


IMPOSSIBLE = {
    "too few buckets": ({"buckets": 3}, "distances to both sides need at least 4 buckets, not 3"),
    "a distance below the buckets": ({"max_distance": 16}, "max_distance must be above that, not 16"),
    "no heads": ({"heads": 0}, "heads must be a whole number"),
    "half a layer": ({"decoder_layers": 0.5}, "decoder_layers must be a whole number"),
    "an unknown activation": ({"activation": "gated-gelu"}, "activation must be one of"),
    "a word for a truth": ({"gated": "yes"}, "gated must be"),
    "a null for a truth": ({"output_scaled": None}, "output_scaled must be"),
    "an epsilon of nothing": ({"norm_eps": 0}, "norm_eps must be above 0, not 0"),
    "an epsilon in words": ({"norm_eps": "small"}, "norm_eps must be"),
    "certain dropout": ({"dropout": 1.0}, "dropout must be at least 0 and below 1"),
    "a start beyond the vocabulary": (
        {"start_token": 32128},
        "start_token must be the number of a token, from 0 to 32127",
    ),
    "two ends": ({"end_token": [1, 2]}, "end_token must be the number of a token"),
    "a context": ({"context": 512}, "T5Config has no field 'context'"),
}


@pytest.mark.parametrize(("changes", "message"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_an_impossible_config_is_refused_in_one_line(changes: dict, message: str):
    with pytest.raises(ClearheadError, match=re.escape(message)) as caught:
        create("t5-small", device="meta", **changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("gated", [True, False])
def test_the_catalogued_sites_fire_and_the_gate_only_where_there_is_one(gated: bool):
    model = T5(FAMILY.shrunken.with_changes(gated=gated))
    model.initialise()
    expected = [site for site in sites_of("t5", 2) if gated or not site.endswith("feed_forward.gate")]
    assert sorted(clearhead.record(model, model.example())) == sorted(expected)


def test_a_source_without_padding_is_masked_nowhere_but_the_target_always_is():
    model = made()
    source, target, *_ = model.example()
    masked = [site for site in clearhead.record(model, (source, target)) if site.endswith("masked")]
    assert masked == [f"decoder.blocks.{layer}.attention.masked" for layer in range(2)]


def test_scores_are_not_scaled_and_all_blocks_of_a_stack_share_one_bias():
    model = made()
    trace = clearhead.record(model, model.example())
    for stack, bias in (("encoder", model.encoder_bias(9)), ("decoder", model.decoder_bias(7))):
        for layer in range(2):
            at = f"{stack}.blocks.{layer}.attention"
            assert torch.equal(trace[f"{at}.scaled"], trace[f"{at}.scores"])
            assert torch.equal(trace[f"{at}.biased"], trace[f"{at}.scaled"] + bias.detach())
    assert not any("cross" in site and "biased" in site for site in trace)


def test_the_bias_depends_on_the_distance_alone_and_on_its_side_only_in_the_encoder():
    model = made()
    both, behind = model.encoder_bias(9)[0], model.decoder_bias(9)[0]
    assert both.shape == (3, 9, 9)
    assert torch.equal(both[:, 2:, 2:], both[:, :-2, :-2])
    assert not torch.equal(both[:, 0, 1], both[:, 1, 0])
    ahead = torch.ones(9, 9, dtype=torch.bool).triu()
    assert all((head[ahead] == head[0, 0]).all() for head in behind)
    assert not torch.equal(behind[:, 1, 0], behind[:, 0, 0])


def test_keys_farther_than_the_largest_distance_share_a_bucket():
    bias = made().encoder_bias(30)[0]
    assert torch.equal(bias[:, 0, 8:].amin(-1), bias[:, 0, 8:].amax(-1))
    assert not torch.equal(bias[:, 0, 1], bias[:, 0, 29])


def test_only_hidden_states_of_the_first_version_are_scaled_before_the_head():
    hidden = torch.randn(2, 3, 12)
    first, second = made(**V1_0), made(**V1_1)
    assert equal(first.head(hidden), hidden @ first.source.tokens.weight.T / 12**0.5)
    assert equal(second.head(hidden), hidden @ second.output.weight.T)


def test_source_and_target_share_one_table_also_in_a_copy():
    model = made()
    twin = copy.deepcopy(model)
    assert "target.tokens.weight" not in model.state_dict()
    assert twin.target.tokens.weight is twin.source.tokens.weight
    assert twin.source.tokens.weight is not model.source.tokens.weight
    assert model.double().target.tokens.weight.dtype == torch.float64


def test_the_weights_start_as_in_the_authors_code():
    model = T5(T5Config(vocab=3000, width=64, layers=2, heads=8, head_width=32, ff=256, **{"tied": False}))
    model.initialise(torch.Generator().manual_seed(0))
    block = model.decoder.blocks[1]
    query, key, value = block.attention.qkv.weight.chunk(3)
    expected = {
        1.0: [model.source.tokens.weight],
        (64 * 32) ** -0.5: [query, block.cross.query.weight],
        64**-0.5: [key, value, block.cross.key.weight, block.feed_forward.up.weight, model.output.weight],
        256**-0.5: [block.attention.out.weight, block.feed_forward.down.weight],
    }
    for std, weights in expected.items():
        assert all(abs(weight.std().item() / std - 1) < 0.03 for weight in weights)
    assert abs(model.encoder_bias.weight.std().item() / 64**-0.5 - 1) < 0.15  # 256 numbers
    assert (block.cross_norm.weight == 1).all()


def test_dropout_acts_in_training_alone():
    model = made(dropout=0.5)
    inputs = model.example()
    assert torch.equal(model(*inputs), model(*inputs))
    model.train()
    assert not torch.equal(model(*inputs), model(*inputs))


VARIANTS = {
    "v1.0": V1_0,
    "v1.1": V1_1,
    "a deeper decoder": {"decoder_layers": 3},
    "farther distances": {"max_distance": 30},
}
SOURCES = [[5, 1, 7, 3, 2, 9, 8], [4, 4], [8, 0, 6]]
PROMPTS = [[0, 1, 7, 3, 2, 9], [0, 4], [0, 6, 1, 5]]
NEXT = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [2, 7, 1, 8, 2, 8, 1], [9, 9, 0, 5, 6, 6, 3]])


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS)
def model(request) -> T5:
    return made(**request.param)


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(row) for row in rows])
    return torch.tensor([row + [0] * (int(lengths.max()) - len(row)) for row in rows]), lengths


def alone(model: T5, row: int, steps: int) -> Tensor:
    """The logits of one row's last token: the whole pass, without a cache, a neighbour or padding."""
    target = PROMPTS[row] + NEXT[row, :steps].tolist()
    return model(torch.tensor([SOURCES[row]]), torch.tensor([target]))[0, -1]


@torch.no_grad()
def test_one_token_at_a_time_equals_the_whole_pass(model):
    source, target = torch.randint(31, (2, 8)), torch.randint(31, (2, 20))
    whole, cache, encoded = model(source, target), model.new_cache(2, size=3), model.encode(source)
    for step in range(20):
        logits = model.head(model.decode(target[:, step : step + 1], encoded, cache=cache))
        assert equal(logits[:, 0], whole[:, step])


@torch.no_grad()
def test_ragged_targets_of_ragged_sources_decode_as_if_each_were_alone(model):
    encoded, cache = model.encode(*padded(SOURCES)), model.new_cache(3)
    prompts, lengths = padded(PROMPTS)
    last = model.head(model.decode(prompts, encoded, lengths, cache))[torch.arange(3), lengths - 1]
    for steps in range(8):
        assert all(equal(last[row], alone(model, row, steps)) for row in range(3))
        if steps < 7:
            last = model.head(model.decode(NEXT[:, steps : steps + 1], encoded, cache=cache))[:, 0]


@torch.no_grad()
def test_several_tokens_at_once_behind_a_ragged_past_equal_the_whole_pass(model):
    encoded, cache = model.encode(*padded(SOURCES)), model.new_cache(3)
    model.decode(*padded(PROMPTS)[:1], encoded, padded(PROMPTS)[1], cache)
    last = model.head(model.decode(NEXT, encoded, cache=cache))[:, -1]
    assert all(equal(last[row], alone(model, row, 7)) for row in range(3))


@torch.no_grad()
def test_rows_that_are_picked_out_go_on_as_if_nothing_had_happened(model):
    encoded, cache = model.encode(*padded(SOURCES)), model.new_cache(3)
    model.decode(*padded(PROMPTS)[:1], encoded, padded(PROMPTS)[1], cache)
    kept = torch.tensor([2, 0, 2])
    memory = [(key[kept], value[kept]) for key, value in encoded.memory]
    chosen = Encoded(memory, encoded.mask[kept])
    last = model.head(model.decode(NEXT[kept, :1], chosen, cache=cache.select(kept)))[:, 0]
    assert all(equal(last[at], alone(model, row, 1)) for at, row in enumerate(kept.tolist()))


@torch.no_grad()
def test_padding_in_source_and_target_changes_nothing_for_the_true_tokens(model):
    (source, source_lengths), (target, target_lengths) = padded(SOURCES), padded(PROMPTS)
    whole = model(source, target, source_lengths, target_lengths)
    for row, length in enumerate(target_lengths.tolist()):
        assert equal(whole[row, :length], model(torch.tensor([SOURCES[row]]), torch.tensor([PROMPTS[row]]))[0])


def test_a_step_with_a_cache_compiles_into_one_graph():
    model = made(**V1_1)
    source, target, lengths, _ = model.example()
    encoded, cache = model.encode(source, lengths), model.new_cache(2, 8)
    expected = model.decode(target[:, :1], encoded, cache=model.new_cache(2, 8))
    step = torch.compile(model.decode, fullgraph=True, backend="eager")
    with torch.no_grad():
        assert equal(step(target[:, :1], encoded, cache=cache), expected)


def test_bf16_autocast_stays_near_fp32():
    model = made(**V1_1)
    inputs = model.example()
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(*inputs)
    assert rough.dtype == torch.bfloat16
    assert equal(rough.float(), model(*inputs), 5e-2)


def test_a_pair_of_texts_is_recorded_with_the_target_behind_its_start():
    trace = clearhead.record(made(), ("translate this sentence", "ceci"))
    assert trace["target.ids"].tolist()[0][0] == 0
    assert trace["decoder.blocks.1.cross.weights"].shape == (1, 3, 2, 3)
    assert trace.about["source_tokens"] == ["translate", "this", "sentence"]
