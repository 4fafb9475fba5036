"""Pre-norm blocks whose products add to the stream where it lies: for many rows on a GPU, without gradients.

The usual way writes a product, and the kernel of the norm behind it reads that and the stream, writes their sum, and
writes the norm. Here the product begins with the stream in its output's memory, so that the norm's kernel only reads
the sum. What it can't begin with as well is a bias: biases add up in a vector beside the stream, put in wherever the
stream is read.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..ops.kernels import has_kernel
from .block import Pass, PreNormBlock
from .feed_forward import FeedForward
from .linear import Linear

LARGE = 256  # rows: fewer are a decoding step


def streams(blocks: Sequence[Any], x: Tensor, shared: Pass) -> bool:
    """Whether these are plain pre-norm blocks in a compiled pass that nobody looks into and no gradient comes back."""
    if not (_is_large(x) and torch.compiler.is_compiling()) or torch.is_grad_enabled():
        return False
    if shared.cache is not None or shared.scale != 1.0 or torch.is_autocast_enabled(x.device.type):
        return False
    return len(blocks) > 0 and all(_is_plain(block, x) for block in blocks) and _has_operators()


def _has_operators() -> bool:
    return has_kernel("add_product") and has_kernel("running_sums")


def _is_large(x: Tensor) -> bool:
    return x.is_cuda and x.dtype == torch.bfloat16 and x.numel() > LARGE * x.shape[-1]


def _is_plain(block: Any, x: Tensor) -> bool:
    if type(block) is not PreNormBlock or block.training or block.cross is not None:
        return False
    last = block.attention.out, getattr(block.feed_forward, "down", None)
    own = type(block.feed_forward) is FeedForward
    return own and all(type(layer) is Linear and layer.weight.dtype == x.dtype for layer in last)


def streamed(blocks: Sequence[Any], x: Tensor, shared: Pass) -> Tensor:
    """x (B,L,width) through the blocks."""
    stream, given = x.clone(), (shared.mask, shared.bias, shared.positions)  # the caller's x stays as it is
    beside: list[Tensor | None] = [None, *_sums(blocks, x)]
    for layer, block in enumerate(blocks):
        asking = block.attention_norm(_with(stream, beside[2 * layer]))
        _add(stream, block.attention.concat(asking, *given), block.attention.out)
        fed = block.feed_forward_norm(_with(stream, beside[2 * layer + 1]))
        _add(stream, block.feed_forward.features(fed), block.feed_forward.down)
    return _with(stream, beside[-1])


def _sums(blocks: Sequence[Any], x: Tensor) -> list[Tensor]:
    """What has to be put in behind each product: the biases of all so far."""
    layers = [layer for block in blocks for layer in (block.attention.out, block.feed_forward.down)]
    biases = [x.new_zeros(x.shape[-1]) if layer.bias is None else layer.bias for layer in layers]
    return torch.ops.clearhead.running_sums(biases)


def _with(stream: Tensor, beside: Tensor | None) -> Tensor:
    return stream if beside is None else (stream + beside).to(stream.dtype)


def _add(stream: Tensor, x: Tensor, layer: Linear) -> None:
    torch.ops.clearhead.add_product(stream.flatten(0, 1), x.flatten(0, 1), layer.weight)
