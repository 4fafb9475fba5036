"""Attention as modules: what is projected where, which path is taken, and when dropout acts."""

import pytest
import torch

from clearhead.errors import ClearheadError
from clearhead.layers import CrossAttention, Heads, Rotary, SelfAttention, use_path
from clearhead.ops import masks, positions
from clearhead.trace import Recorder
from tests.support import equal

WIDTH = 12


def self_attention(**options) -> SelfAttention:
    heads = options.pop("heads", Heads.of(WIDTH, 3))
    return SelfAttention(WIDTH, heads, **options).eval()


VARIANTS = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window": 2},
    "banded": {"causal": True, "window": 3},
    "no bias": {"bias": False},
    "own scale": {"scale": 0.2},
    "grouped": {"heads": Heads.of(WIDTH, 4, kv_count=2), "causal": True},
    "wide values": {"heads": Heads.of(WIDTH, 3, value=7)},
    "rotary": {"rotary": Rotary(4), "causal": True},
    "dropout of nothing": {"dropout": 0.0},
}


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("training", [True, False])
def test_both_paths_of_a_layer_give_the_same_with_its_gradients(options, training):
    layer = self_attention(**options).train(training)
    x, mask = torch.randn(2, 6, WIDTH, requires_grad=True), masks.padding(torch.tensor([6, 4]), 6)
    results = []
    for path in ("fused", "reference"):
        output = use_path(layer, path)(x, mask)
        results.append([output, *torch.autograd.grad(output.square().sum(), [x, *layer.parameters()])])
    assert all(equal(ours, theirs) for ours, theirs in zip(*results, strict=True))


def test_a_path_that_does_not_exist_is_refused_and_never_taken_for_another():
    with pytest.raises(ClearheadError, match="refrence"):
        use_path(self_attention(), "refrence")(torch.randn(1, 2, WIDTH))


@pytest.mark.parametrize("path", ["fused", "reference"])
def test_dropout_acts_in_training_alone(path):
    layer = use_path(self_attention(dropout=0.5), path)
    x = torch.randn(2, 6, WIDTH)
    assert torch.equal(layer(x), layer(x))
    assert equal(layer(x), use_path(self_attention_like(layer), "fused")(x))
    layer.train()
    assert not torch.equal(layer(x), layer(x))


def self_attention_like(layer: SelfAttention) -> SelfAttention:
    twin = self_attention()
    twin.load_state_dict(layer.state_dict())
    return twin


def test_the_first_rows_alone_are_the_same_rows():
    layer = self_attention(rotary=Rotary(4))
    x = torch.randn(2, 6, WIDTH)
    assert equal(layer(x, rows=2), layer(x)[:, :2])


def test_queries_keys_and_values_are_the_products_with_their_parts_of_one_weight():
    layer = self_attention(heads=Heads.of(WIDTH, 4, kv_count=2, value=5))
    x = torch.randn(2, 6, WIDTH)
    with Recorder(layer) as trace:
        layer(x)
    weights, biases = layer.qkv.weight.split(layer.sizes), layer.qkv.bias.split(layer.sizes)
    for name, weight, bias, count in zip(("query", "key", "value"), weights, biases, (4, 2, 2), strict=True):
        by_hand = (x @ weight.T + bias).view(2, 6, count, -1).transpose(1, 2)
        assert equal(trace[name], by_hand)
    assert trace["weights"].shape == (2, 4, 6, 6)
    assert equal(trace["weights"].sum(-1), torch.ones(2, 4, 6))
    assert equal(trace["concat"], trace["output"].transpose(1, 2).reshape(2, 6, 20))


def test_rotary_layers_turn_queries_and_keys_by_the_positions_they_are_told():
    layer = self_attention(rotary=Rotary(4))
    x, at = torch.randn(2, 3, WIDTH), torch.tensor([[0, 1, 2], [5, 6, 9]])
    with Recorder(layer) as trace:
        layer(x, positions=at)
    plain = (x @ layer.qkv.weight[:WIDTH].T + layer.qkv.bias[:WIDTH]).view(2, 3, 3, 4).transpose(1, 2)
    by_hand = positions.rotate(plain[1], positions.rotary_angles(at[1], 4))
    assert equal(trace["query"][1], by_hand)


def test_cross_attention_weights_are_target_by_source_and_a_memory_can_be_asked_again():
    layer = CrossAttention(WIDTH, Heads.of(WIDTH, 3), key_width=7, value_width=5).eval()
    targets, keys, values = torch.randn(2, 4, WIDTH), torch.randn(2, 9, 7), torch.randn(2, 9, 5)
    memory = layer.remember(keys, values)
    with Recorder(layer) as trace:
        whole = layer(targets, memory)
    assert trace["weights"].shape == (2, 3, 4, 9)
    assert equal(layer(targets[:, 2:], memory), whole[:, 2:])


def test_cross_attention_never_looks_at_hidden_sources():
    layer = CrossAttention(WIDTH, Heads.of(WIDTH, 3)).eval()
    targets, source = torch.randn(1, 4, WIDTH), torch.randn(1, 6, WIDTH)
    hidden = layer(targets, layer.remember(source), masks.padding(torch.tensor([4]), 6))
    assert equal(hidden, layer(targets, layer.remember(source[:, :4])))


def test_heads_default_to_an_even_split():
    assert Heads.of(512, 8) == Heads(count=8, key=64, value=64, kv_count=8)
    assert Heads.of(10, 1, key=2) == Heads(count=1, key=2, value=2, kv_count=1)
