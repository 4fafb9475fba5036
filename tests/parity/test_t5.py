"""T5 against transformers, v1.0 and v1.1: logits, and the weights of all three attentions of every layer."""

import gc
import json
import random
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import clearhead
from clearhead.layers import RelativeBias, RMSNorm
from clearhead.models import Model, find
from clearhead.models.t5 import FAMILY, T5Config
from tests.support import equal, peer

transformers = peer("transformers")

PROJECTIONS = (
    *("relu", "gated-gelu", "gated-silu", "gelu", "gated-relu", "gelu_new", "gated-gelu_new", "silu"),
    *("gated-gelu_python", "gated-tanh", "quick_gelu", "gated-quick_gelu"),
)
SIDES = ("encoder_attentions", "decoder_attentions", "cross_attentions")


def shaken(model: nn.Module, std: float, untied: bool) -> nn.Module:
    """Every weight drawn anew, norms too. transformers ties every head it builds: `untied` gives it one of its own."""
    if untied:
        model.lm_head.weight = nn.Parameter(torch.empty_like(model.lm_head.weight))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(1.0 if "norm" in name else 0.0, std)
    return model.eval()


def built(std: float = 0.25, untied: bool = False, **fields: object) -> nn.Module:
    """Their model: eager attention, because the fused one returns no weights."""
    config = transformers.T5Config(**{"vocab_size": 101} | fields, attn_implementation="eager")
    return shaken(transformers.T5ForConditionalGeneration(config), std, untied)


def handed_over(theirs: nn.Module, folder: Path) -> Model:
    """Ours, out of the folder that theirs writes."""
    theirs.save_pretrained(folder)
    return clearhead.load(folder, device="cpu")


Numbers = tuple[Tensor, list[tuple[Tensor, ...]]]
Lengths = tuple[Tensor, Tensor] | tuple[()]


def answer(theirs: nn.Module, source: Tensor, target: Tensor, lengths: Lengths = ()) -> Numbers:
    """(logits, attention weights by side and layer) of their model."""
    masks = [
        (torch.arange(ids.shape[1]) < n[:, None]).long() for ids, n in zip((source, target), lengths, strict=False)
    ]
    given = dict(zip(("attention_mask", "decoder_attention_mask"), masks, strict=False))
    with torch.no_grad():
        result = theirs(source, decoder_input_ids=target, **given, output_attentions=True, use_cache=False)
    return result.logits, [getattr(result, side) for side in SIDES]


def assert_same(model: Model, source: Tensor, target: Tensor, theirs: Numbers, lengths: Lengths = ()) -> None:
    """Ours gives their numbers: recorded and on the fused path, wherever there is a token."""
    inputs = (source, target, *lengths)
    trace = clearhead.record(model, inputs, sites=["*.attention.weights", "*.cross.weights"])
    with torch.no_grad():
        fused = model(*inputs)
    logits, attentions = theirs
    c = model.config
    depths = (c.layers, c.decoder_layers or c.layers, c.decoder_layers or c.layers)
    for row in range(len(source)):
        s, t = (int(n[row]) for n in lengths) if lengths else (source.shape[1], target.shape[1])
        assert equal(trace.output[row, :t], logits[row, :t])
        assert equal(fused[row, :t], logits[row, :t])
        sites = (("encoder", "attention", s, s), ("decoder", "attention", t, t), ("decoder", "cross", t, s))
        for (stack, kind, high, wide), depth, other in zip(sites, depths, attentions, strict=True):
            assert len(other) == depth
            for layer in range(depth):
                site = f"{stack}.blocks.{layer}.{kind}.weights"
                assert equal(trace[site][row, :, :high, :wide], other[layer][row, :, :high, :wide]), site
    assert len(trace) == sum(depths)


def drawn(seed: int) -> dict[str, object]:
    """A small config of odd sizes, with every arithmetic field of T5's drawn at random."""
    roll = random.Random(seed)
    buckets = roll.choice([4, 7, 8, 11])
    return {
        "d_model": roll.choice([5, 12, 21, 30]),
        "d_kv": roll.choice([1, 3, 8]),
        "num_heads": roll.choice([1, 2, 3, 5]),
        "d_ff": roll.choice([7, 24, 50]),
        "num_layers": roll.choice([1, 2, 3]),
        "num_decoder_layers": roll.choice([None, 1, 2]),
        "relative_attention_num_buckets": buckets,
        "relative_attention_max_distance": buckets // 2 + roll.choice([1, 4, 20]),
        "layer_norm_epsilon": roll.choice([1e-6, 1e-3, 0.1]),
        "feed_forward_proj": PROJECTIONS[seed % len(PROJECTIONS)],
        "tie_word_embeddings": roll.random() < 0.5,
        "untied": roll.random() < 0.5,
    }


def ids_of(batch: int, length: int, vocab: int = 101) -> Tensor:
    return torch.randint(vocab, (batch, length))


@pytest.mark.parametrize("seed", range(12))
def test_t5_with_any_arithmetic_gives_their_logits_and_weights(seed: int, tmp_path: Path):
    fields = drawn(seed)
    theirs = built(**fields)
    model = handed_over(theirs, tmp_path)
    assert model.config.tied is not fields["untied"]
    assert model.config.output_scaled is fields["tie_word_embeddings"]
    source, target = ids_of(2, 19), ids_of(2, 14)
    assert_same(model, source, target, answer(theirs, source, target))


@pytest.mark.parametrize("seed", range(12, 20))
def test_rows_padded_in_source_and_target_give_their_logits_and_weights(seed: int, tmp_path: Path):
    theirs = built(**drawn(seed))
    model = handed_over(theirs, tmp_path)
    source, target = ids_of(4, 13), ids_of(4, 9)
    lengths = torch.tensor([13, 1, 4, 7]), torch.tensor([3, 9, 1, 6])
    assert_same(model, source, target, answer(theirs, source, target, lengths), lengths)


def seeded(**fields: object) -> nn.Module:
    torch.manual_seed(7)
    return built(**fields)


def test_the_fields_drawn_do_change_their_numbers():
    """So that the draws above can fail: a field that transformers ignored would prove nothing."""
    plain = {"d_model": 21, "d_kv": 3, "num_heads": 3, "d_ff": 24, "num_layers": 2}
    plain |= {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 12}
    source, target = ids_of(1, 19), ids_of(1, 14)
    base, _ = answer(seeded(**plain), source, target)
    for change in (
        {"feed_forward_proj": "gelu"},
        {"feed_forward_proj": "gelu_new"},
        {"layer_norm_epsilon": 0.1},
        {"relative_attention_max_distance": 5},
        {"tie_word_embeddings": False},
        {"untied": True},
    ):
        assert not equal(answer(seeded(**plain | change), source, target)[0], base), change


SAVED = {
    "v1.0": {"gated": False, "activation": "relu", "tied": True, "output_scaled": True},
    "v1.1": {},
    "tied and not scaled": {"tied": True},
    "scaled and not tied": {"output_scaled": True},
    "exact gated GELU": {"activation": "gelu"},
    "plain tanh GELU": {"gated": False},
    "a deeper decoder, odd arithmetic": {"decoder_layers": 3, "buckets": 7, "max_distance": 5, "norm_eps": 0.01},
}


@pytest.mark.parametrize("changes", SAVED.values(), ids=SAVED)
def test_a_folder_that_we_save_loads_in_transformers_whole_and_with_equal_numbers(changes: dict, tmp_path: Path):
    model = FAMILY.model(FAMILY.shrunken.with_changes(**changes)).eval()
    model.initialise()
    clearhead.save(model, tmp_path)
    kind = getattr(transformers, json.loads((tmp_path / "config.json").read_text())["architectures"][0])
    theirs, info = kind.from_pretrained(tmp_path, output_loading_info=True, attn_implementation="eager")
    assert not any(info.values())
    source, target = ids_of(3, 13), ids_of(3, 9)
    lengths = torch.tensor([13, 1, 4]), torch.tensor([3, 9, 6])
    assert_same(model, source, target, answer(theirs.eval(), source, target, lengths), lengths)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
def test_the_norm_is_theirs_to_the_last_bit(kind: torch.dtype):
    theirs = transformers.models.t5.modeling_t5.T5LayerNorm(21, eps=1e-6).to(kind)
    ours = RMSNorm(21, eps=1e-6).to(kind)
    torch.nn.init.normal_(theirs.weight)
    ours.load_state_dict(theirs.state_dict())
    x = 30 * torch.randn(4, 7, 21, dtype=kind)
    assert torch.equal(ours(x), theirs(x))


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (7, 9), (4, 3)])
def test_the_relative_bias_is_theirs_to_the_last_bit(bidirectional: bool, buckets: int, max_distance: int):
    config = transformers.T5Config(
        num_heads=3,
        is_decoder=not bidirectional,
        relative_attention_num_buckets=buckets,
        relative_attention_max_distance=max_distance,
    )
    attention = transformers.models.t5.modeling_t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    ours = RelativeBias(3, buckets=buckets, max_distance=max_distance, bidirectional=bidirectional)
    ours.load_state_dict(attention.relative_attention_bias.state_dict())
    assert torch.equal(ours(300), attention.compute_bias(300, 300))
    step = ours(41, torch.tensor([[37, 38], [40, 41]]))
    for row, past in enumerate((37, 40)):
        assert torch.equal(step[row], attention.compute_bias(2, 41, past_seen_tokens=past)[0])


def fields_of(config: T5Config) -> dict[str, object]:
    return {
        "vocab_size": config.vocab,
        "d_model": config.width,
        "d_kv": config.head_width,
        "d_ff": config.ff,
        "num_layers": config.layers,
        "num_heads": config.heads,
        "feed_forward_proj": "gated-gelu" if config.gated else "relu",
        "tie_word_embeddings": config.output_scaled,
        "untied": not config.tied,
    }


def assert_same_in_full(config: T5Config, folder: Path) -> None:
    std = 0.45 * config.width**-0.5  # wider, and unscaled scores through many layers would amplify rounding
    theirs = built(std, **fields_of(config))
    source, target = ids_of(2, 24, config.vocab), ids_of(2, 11, config.vocab)
    lengths = torch.tensor([24, 17]), torch.tensor([8, 11])
    numbers = answer(theirs, source, target, lengths)
    theirs.save_pretrained(folder)
    del theirs
    gc.collect()
    try:
        model = clearhead.load(folder, device="cpu")
        assert model.config == config
        assert_same(model, source, target, numbers, lengths)
    finally:
        shutil.rmtree(folder)  # pytest would keep gigabytes


@pytest.mark.parametrize(
    "name",
    [
        "t5-small",
        "t5-v1.1-small",
        *(
            pytest.param(name, marks=pytest.mark.large)
            for name in ("t5-base", "t5-large", "t5-v1.1-base", "t5-v1.1-large")
        ),
    ],
)
def test_a_published_size_in_full_gives_their_logits_and_weights(name: str, tmp_path: Path):
    config = find(name)[1]
    assert isinstance(config, T5Config)
    assert_same_in_full(config, tmp_path)


@pytest.mark.large
@pytest.mark.parametrize("name", ["t5-3b", "t5-11b", "t5-v1.1-xl", "t5-v1.1-xxl"])
def test_one_layer_of_the_largest_at_full_width_gives_their_logits_and_weights(name: str, tmp_path: Path):
    config = find(name)[1].with_changes(layers=1)
    assert isinstance(config, T5Config)
    assert_same_in_full(config, tmp_path)
