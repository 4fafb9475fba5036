"""Our multi-head attention against the two calls the decks print: torch's and Keras's."""

import pytest
import torch
from torch import nn

from clearhead.layers import CrossAttention, Heads, SelfAttention
from clearhead.ops import masks
from clearhead.trace import Recorder
from tests.support import equal, peer

WIDTH, HEADS = 12, 3
TARGETS, SOURCES = 5, 7


def recorded(layer: nn.Module, *args, **options):
    """Output on the fused path, output while recording, and the trace."""
    with Recorder(layer.eval()) as trace:
        seen = layer(*args, **options)
    return layer(*args, **options), seen, trace


def self_attention_of(theirs: nn.MultiheadAttention, **options) -> SelfAttention:
    ours = SelfAttention(WIDTH, Heads.of(WIDTH, HEADS), bias=theirs.in_proj_bias is not None, **options)
    ours.qkv.weight.data = theirs.in_proj_weight.data
    ours.out.weight.data = theirs.out_proj.weight.data
    if theirs.in_proj_bias is not None:
        nn.init.normal_(theirs.in_proj_bias)
        nn.init.normal_(theirs.out_proj.bias)
        ours.qkv.bias.data, ours.out.bias.data = theirs.in_proj_bias.data, theirs.out_proj.bias.data
    return ours


def cross_attention_of(theirs: nn.MultiheadAttention) -> CrossAttention:
    ours = CrossAttention(WIDTH, Heads.of(WIDTH, HEADS), key_width=theirs.kdim, value_width=theirs.vdim)
    separate = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    weights = separate if theirs.in_proj_weight is None else theirs.in_proj_weight.chunk(3)
    nn.init.normal_(theirs.in_proj_bias)
    biases = theirs.in_proj_bias.chunk(3)
    for layer, weight, bias in zip((ours.query, ours.key, ours.value), weights, biases, strict=True):
        layer.weight.data, layer.bias.data = weight.data, bias.data
    ours.out.load_state_dict(theirs.out_proj.state_dict())
    return ours


def agrees(ours, theirs) -> bool:
    fused, seen, trace = ours
    output, weights = theirs
    return equal(fused, output) and equal(seen, output) and equal(trace["weights"], weights)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_self_attention_is_torchs_with_the_weights_of_every_head(bias, causal, padded):
    theirs = nn.MultiheadAttention(WIDTH, HEADS, bias=bias, batch_first=True).eval()
    x, look = torch.randn(2, TARGETS, WIDTH), masks.padding(torch.tensor([5, 3]), TARGETS)
    ours = recorded(self_attention_of(theirs, causal=causal), x, look if padded else None)
    hidden = ~look[:, 0, 0] if padded else None
    ahead = ~masks.causal(TARGETS) if causal else None
    assert agrees(ours, theirs(x, x, x, key_padding_mask=hidden, attn_mask=ahead, average_attn_weights=False))


def test_a_bias_on_the_scores_is_torchs_float_mask():
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    x, bias = torch.randn(2, TARGETS, WIDTH), torch.randn(2, HEADS, TARGETS, TARGETS)
    ours = recorded(self_attention_of(theirs), x, bias=bias)
    assert agrees(ours, theirs(x, x, x, attn_mask=bias.flatten(0, 1), average_attn_weights=False))


@pytest.mark.parametrize(("key_width", "value_width"), [(None, None), (9, None), (None, 4), (9, 4)])
@pytest.mark.parametrize("padded", [True, False])
def test_cross_attention_is_torchs_whatever_the_widths_of_keys_and_values(key_width, value_width, padded):
    theirs = nn.MultiheadAttention(WIDTH, HEADS, kdim=key_width, vdim=value_width, batch_first=True).eval()
    targets = torch.randn(2, TARGETS, WIDTH)
    keys, values = torch.randn(2, SOURCES, key_width or WIDTH), torch.randn(2, SOURCES, value_width or WIDTH)
    look = masks.padding(torch.tensor([4, 7]), SOURCES)
    layer = cross_attention_of(theirs)
    ours = recorded(layer, targets, layer.remember(keys, values), look if padded else None)
    assert ours[2]["weights"].shape == (2, HEADS, TARGETS, SOURCES)
    hidden = ~look[:, 0, 0] if padded else None
    assert agrees(ours, theirs(targets, keys, values, key_padding_mask=hidden, average_attn_weights=False))


def test_the_gradients_of_self_attention_are_torchs():
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    ours = self_attention_of(theirs)
    x, towards = torch.randn(2, TARGETS, WIDTH, requires_grad=True), torch.randn(2, TARGETS, WIDTH)
    mine = torch.autograd.grad(ours(x), [x, ours.qkv.weight, ours.out.weight], towards)
    yours = torch.autograd.grad(theirs(x, x, x)[0], [x, theirs.in_proj_weight, theirs.out_proj.weight], towards)
    assert all(equal(a, b) for a, b in zip(mine, yours, strict=True))


def keras_weights(layer: CrossAttention, theirs) -> None:
    """Copy a built Keras layer's kernels (in, heads, features) into ours (heads * features, in)."""
    pairs = ((layer.query, theirs.query_dense), (layer.key, theirs.key_dense), (layer.value, theirs.value_dense))
    for ours, dense in pairs:
        ours.weight.data = dense.kernel.value.detach().flatten(1).T.contiguous()
        ours.bias.data = dense.bias.value.detach().flatten()
    layer.out.weight.data = theirs.output_dense.kernel.value.detach().flatten(0, 1).T.contiguous()
    layer.out.bias.data = theirs.output_dense.bias.value.detach()


@pytest.mark.parametrize("look", ["everywhere", "at true sources", "back"])
def test_attention_is_kerass_with_values_of_another_width_than_keys(look):
    keras = peer("keras")
    assert keras.backend.backend() == "torch"
    sources = TARGETS if look == "back" else SOURCES
    theirs = keras.layers.MultiHeadAttention(HEADS, key_dim=4, value_dim=6, bias_initializer="normal")
    targets, keys, values = torch.randn(2, TARGETS, WIDTH), torch.randn(2, sources, 9), torch.randn(2, sources, 8)
    mask = masks.padding(torch.tensor([4, 7]), sources) if look == "at true sources" else None
    output, scores = theirs(
        targets,
        values,
        keys,
        attention_mask=None if mask is None else mask[:, 0].expand(-1, TARGETS, -1),
        use_causal_mask=look == "back",
        return_attention_scores=True,
    )
    layer = CrossAttention(WIDTH, Heads.of(WIDTH, HEADS, key=4, value=6), key_width=9, value_width=8)
    keras_weights(layer, theirs)
    memory = layer.remember(keys, values)
    assert agrees(recorded(layer, targets, memory, mask, causal=look == "back"), (output, scores))
