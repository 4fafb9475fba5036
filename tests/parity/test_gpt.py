"""GPT-2 and GPT against transformers: logits and the attention weights of every layer, from files that they wrote."""

import json
import random
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import clearhead
from clearhead.convert import recognise
from clearhead.models import Model, find
from tests.support import equal, handed_over, large_handed_over, peer, redrawn, their_answer

transformers = peer("transformers")

ACTIVATIONS = (
    *("gelu_new", "gelu", "relu", "silu", "tanh", "quick_gelu", "swish"),
    *("gelu_fast", "gelu_pytorch_tanh", "gelu_python"),
)


def built(kind: str, std: float = 0.3, **fields: object) -> nn.Module:
    """Their model with a head: eager attention, because the fused one returns no weights."""
    config = getattr(transformers, f"{kind}Config")(**{"vocab_size": 101} | fields, attn_implementation="eager")
    return redrawn(getattr(transformers, f"{kind}LMHeadModel")(config), std)


def answer(theirs: nn.Module, ids: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
    mask = None if lengths is None else (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    return their_answer(theirs, ids, mask)


def assert_same(model: Model, ids: Tensor, theirs: tuple[Tensor, list[Tensor]], lengths: Tensor | None = None) -> None:
    """Ours gives their numbers: recorded and on the fused path, wherever there is a token."""
    inputs = (ids,) if lengths is None else (ids, lengths)
    trace = clearhead.record(model, inputs, sites="*.attention.weights")
    with torch.no_grad():
        fused = model(*inputs)
    logits, attentions = theirs
    ours = list(trace.values.values())
    assert len(ours) == len(attentions) == model.config.layers
    for row, length in enumerate([ids.shape[1]] * len(ids) if lengths is None else lengths.tolist()):
        assert equal(trace.output[row, :length], logits[row, :length])
        assert equal(fused[row, :length], logits[row, :length])
        for layer, (mine, other) in enumerate(zip(ours, attentions, strict=True)):
            assert equal(mine[row, :, :length, :length], other[row, :, :length, :length]), f"layer {layer}"


def drawn(seed: int) -> dict[str, object]:
    """A small config of odd sizes, with every arithmetic field of GPT-2's drawn at random."""
    roll = random.Random(seed)
    heads = roll.choice([1, 2, 3, 5])
    return {
        "n_embd": heads * roll.choice([3, 7, 12]),
        "n_head": heads,
        "n_layer": roll.choice([1, 2, 3]),
        "n_positions": roll.choice([9, 16, 21]),
        "n_inner": roll.choice([None, 17, 50]),
        "activation_function": ACTIVATIONS[seed % len(ACTIVATIONS)],
        "layer_norm_epsilon": roll.choice([1e-5, 1e-3, 0.1]),
        "scale_attn_weights": roll.random() < 0.5,
        "scale_attn_by_inverse_layer_idx": roll.random() < 0.5,
        "reorder_and_upcast_attn": roll.random() < 0.5,
        "tie_word_embeddings": roll.random() < 0.5,
    }


def ids_of(batch: int, length: int, vocab: int = 101) -> Tensor:
    return torch.randint(vocab, (batch, length))


@pytest.mark.parametrize("kind", ["GPT2", "OpenAIGPT"])
def test_every_field_that_their_own_config_has_is_known(kind: str):
    values = getattr(transformers, f"{kind}Config")().to_dict()
    assert recognise(json.loads(json.dumps(values)))[0] == "gpt"


@pytest.mark.parametrize("seed", range(14))
def test_gpt2_with_any_arithmetic_gives_their_logits_and_weights(seed: int, tmp_path: Path):
    theirs = built("GPT2", **drawn(seed))
    model = handed_over(theirs, tmp_path)
    ids = ids_of(2, 9)
    assert_same(model, ids, answer(theirs, ids))


@pytest.mark.parametrize("seed", range(14, 18))
def test_gpt2_rows_padded_at_their_right_give_their_logits_and_weights(seed: int, tmp_path: Path):
    theirs = built("GPT2", **drawn(seed))
    model = handed_over(theirs, tmp_path)
    ids, lengths = ids_of(4, 9), torch.tensor([9, 1, 4, 7])
    assert_same(model, ids, answer(theirs, ids, lengths), lengths)


def test_the_fields_drawn_do_change_their_numbers():
    """So that the draws above can fail: a field that transformers ignored would prove nothing."""
    plain = {"n_embd": 21, "n_head": 3, "n_layer": 2, "n_positions": 9}
    ids = ids_of(1, 9)
    base, _ = answer(seeded("GPT2", plain), ids)
    for change in (
        {"activation_function": "relu"},
        {"layer_norm_epsilon": 0.1},
        {"scale_attn_weights": False},
        {"scale_attn_by_inverse_layer_idx": True},
    ):
        assert not equal(answer(seeded("GPT2", plain | change), ids)[0], base), change


def seeded(kind: str, fields: dict[str, object]) -> nn.Module:
    torch.manual_seed(7)
    return built(kind, **fields)


def test_their_shards_and_their_pickle_give_the_same_model_as_their_one_file(tmp_path: Path):
    theirs = built("GPT2", **drawn(3))
    whole = handed_over(theirs, tmp_path / "whole")
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="10KB")
    assert len(list((tmp_path / "shards").glob("model-*.safetensors"))) > 2
    theirs.config.save_pretrained(tmp_path / "pickle")
    torch.save(theirs.state_dict(), tmp_path / "pickle" / "pytorch_model.bin")
    ids = ids_of(2, 9)
    for folder in ("shards", "pickle"):
        assert torch.equal(clearhead.load(tmp_path / folder, device="cpu")(ids), whole(ids))


@pytest.mark.parametrize("seed", range(12))
def test_gpt1_with_any_arithmetic_gives_their_logits_and_weights(seed: int, tmp_path: Path):
    roll = random.Random(seed)
    heads = roll.choice([1, 2, 3])
    theirs = built(
        "OpenAIGPT",
        n_embd=heads * roll.choice([3, 7, 12]),
        n_head=heads,
        n_layer=roll.choice([1, 2, 3]),
        n_positions=roll.choice([9, 16]),
        afn=["gelu", "relu", "silu", "swish"][seed % 4],
        layer_norm_epsilon=roll.choice([1e-5, 1e-3, 0.1]),
        tie_word_embeddings=roll.random() < 0.5,
    )
    model = handed_over(theirs, tmp_path)
    ids = ids_of(3, 9)
    lengths = torch.tensor([9, 1, 6]) if seed % 2 else None
    assert_same(model, ids, answer(theirs, ids, lengths), lengths)


@pytest.mark.parametrize(
    "name",
    [
        "gpt2",
        "gpt1",
        pytest.param("gpt2-medium", marks=pytest.mark.large),
        pytest.param("gpt2-large", marks=pytest.mark.large),
        pytest.param("gpt2-xl", marks=pytest.mark.large),
    ],
)
def test_a_published_size_in_full_gives_their_logits_and_weights(name: str, tmp_path: Path):
    config = find(name)[1]
    sizes = {"n_embd": config.width, "n_layer": config.layers, "n_head": config.heads}
    kind = "OpenAIGPT" if name == "gpt1" else "GPT2"
    spread = config.width**-0.5  # scores of ordinary size: larger ones turn rounding into other weights
    ids = ids_of(1, 24, config.vocab)

    def theirs() -> nn.Module:
        return built(kind, spread, vocab_size=config.vocab, n_positions=config.context, **sizes)

    with large_handed_over(theirs, ids, tmp_path) as (model, numbers):
        assert model.config == config
        assert_same(model, ids, numbers)
