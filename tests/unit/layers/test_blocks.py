"""Blocks, feed-forward layers and norms against the same arithmetic written by hand."""

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

from clearhead.layers import (
    CrossAttention,
    FeedForward,
    GatedFeedForward,
    Heads,
    LayerNorm,
    Pass,
    PostNormBlock,
    PreNormBlock,
    RMSNorm,
    SelfAttention,
    Stack,
)
from clearhead.layers.stack import compile_blocks
from tests.support import equal, peer

WIDTH, FF = 12, 20


def block(kind, *, cross: bool = False, dropout: float = 0.0):
    heads = Heads.of(WIDTH, 3)
    built = kind(
        SelfAttention(WIDTH, heads, causal=True),
        FeedForward(WIDTH, FF, "relu"),
        lambda: LayerNorm(WIDTH),
        cross=CrossAttention(WIDTH, heads) if cross else None,
        dropout=dropout,
    )
    for parameter in built.parameters():
        nn.init.normal_(parameter, 0.3, 0.3)
    return built.eval()


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(2, 5, WIDTH)


def test_pre_norm_adds_what_a_layer_makes_of_the_normed_stream(x):
    b = block(PreNormBlock)
    middle = x + b.attention(b.attention_norm(x))
    assert equal(b(x, Pass(), 0), middle + b.feed_forward(b.feed_forward_norm(middle)))


def test_post_norm_norms_the_sum_as_published(x):
    b = block(PostNormBlock)
    middle = b.attention_norm(x + b.attention(x))
    assert equal(b(x, Pass(), 0), b.feed_forward_norm(middle + b.feed_forward(middle)))


def test_a_block_with_cross_attention_asks_its_own_layers_memory(x):
    b, source = block(PreNormBlock, cross=True), torch.randn(2, 7, WIDTH)
    memory = b.cross.remember(source)
    middle = x + b.attention(b.attention_norm(x))
    middle = middle + b.cross(b.cross_norm(middle), memory)
    expected = middle + b.feed_forward(b.feed_forward_norm(middle))
    assert equal(b(x, Pass(memory=[(source, source), memory]), 1), expected)


@pytest.mark.parametrize("kind", [PreNormBlock, PostNormBlock])
def test_the_first_rows_of_a_block_alone_are_the_same_rows(kind, x):
    b = block(kind)
    b.attention.causal = False
    assert equal(b(x, Pass(), 0, rows=1), b(x, Pass(), 0)[:, :1])


def test_dropout_of_a_block_acts_in_training_alone(x):
    b = block(PreNormBlock, dropout=0.5)
    assert torch.equal(b(x, Pass(), 0), b(x, Pass(), 0))
    b.train()
    assert not torch.equal(b(x, Pass(), 0), b(x, Pass(), 0))


def test_a_stack_is_its_blocks_one_after_another_and_a_norm(x):
    blocks, norm = [block(PreNormBlock) for _ in range(3)], LayerNorm(WIDTH)
    expected = x
    for b in blocks:
        expected = b(expected, Pass(), 0)
    assert equal(Stack(blocks, norm)(x, Pass()), norm(expected))


def test_feed_forward_is_two_products_with_a_non_linearity_between(x):
    layer = FeedForward(WIDTH, FF, "relu")
    by_hand = (x @ layer.up.weight.T + layer.up.bias).clamp(min=0) @ layer.down.weight.T + layer.down.bias
    assert equal(layer(x), by_hand)


def test_gated_feed_forward_is_t5s(x):
    t5 = peer("transformers.models.t5.modeling_t5")
    theirs = t5.T5DenseGatedActDense(t5.T5Config(d_model=WIDTH, d_ff=FF, feed_forward_proj="gated-gelu")).eval()
    ours = GatedFeedForward(WIDTH, FF, "gelu-tanh", bias=False)
    ours.gate_up.weight.data = torch.cat([theirs.wi_0.weight, theirs.wi_1.weight]).detach()
    ours.down.weight.data = theirs.wo.weight.detach()
    assert equal(ours(x), theirs(x))


def test_rms_norm_is_t5s(x):
    theirs = peer("transformers.models.t5.modeling_t5").T5LayerNorm(WIDTH)
    ours = RMSNorm(WIDTH)
    ours.weight.data.normal_()
    theirs.weight.data = ours.weight.data
    assert equal(ours(5 * x), theirs(5 * x))


def test_layer_norm_gives_rows_of_mean_zero_and_variance_one(x):
    normed = LayerNorm(WIDTH)(3 * x + 1)
    assert equal(normed.mean(-1), torch.zeros(2, 5))
    assert equal(normed.var(-1, unbiased=False), torch.ones(2, 5), tolerance=1e-4)


def test_blocks_that_ask_a_memory_are_compiled_once_for_all_of_them(x):
    """Each has a memory of its own, but its code does not depend on its place."""
    torch.compiler.reset()
    stack, counter = Stack([block(PreNormBlock, cross=True) for _ in range(4)]), CompileCounter()
    shared = Pass(memory=stack.remember(torch.randn(2, 7, WIDTH)))
    expected = stack(x.requires_grad_(), shared)
    for one in stack.blocks:
        one.compile(backend=counter, dynamic=False)
    assert equal(stack(x, shared), expected) and counter.frame_count == 1
    torch.compiler.reset()


def test_with_dynamic_blocks_batches_of_all_shapes_but_the_first_share_one_code(monkeypatch):
    torch.compiler.reset()
    stack, counter = Stack([block(PreNormBlock, cross=True) for _ in range(2)]), CompileCounter()
    plain = nn.Module.compile
    monkeypatch.setattr(nn.Module, "compile", lambda module, **how: plain(module, backend=counter, **how))
    given = []
    for batch, source, target in ((4, 16, 8), (3, 24, 16), (6, 16, 24), (2, 56, 32)):
        memory = stack.remember(torch.randn(batch, source, WIDTH))
        given.append((torch.randn(batch, target, WIDTH, requires_grad=True), Pass(memory=memory)))
    expected = [stack(*one) for one in given]
    compile_blocks(stack, dynamic=True)
    for one, wanted in zip(given, expected, strict=True):
        assert equal(stack(*one), wanted)
    assert counter.frame_count == 2
    torch.compiler.reset()
