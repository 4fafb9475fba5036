"""Which passes the kernel of a whole stack serves, and the call of it: see ops/one_row.py.

It is for the step that writes one text on a GPU, in the shapes of GPT-2. Whoever wants to see inside gets the layers
one by one, as everywhere else.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..ops.kernels import has_kernel
from ..trace import recording
from .attention import SelfAttention
from .block import Pass, PreNormBlock
from .feed_forward import FeedForward
from .linear import Linear
from .norm import LayerNorm

ACTIVATIONS = ("gelu-tanh", "gelu", "relu")
WIDEST = 1024  # a program keeps its share of a weight in registers, and wider ones don't fit
NVIDIA = torch.version.cuda is not None


def serves(blocks: Sequence[Any], x: Tensor, shared: Pass) -> bool:
    """Whether the kernel computes what these blocks would for this pass."""
    if shared.cache is None or shared.cache.bucket is None or not _is_one_row(x):
        return False
    plain = shared.bias is None and shared.memory is None and shared.scale == 1.0
    watched = recording() or torch.is_grad_enabled() or torch.is_autocast_enabled(x.device.type)
    known = len(blocks) > 0 and all(_is_known(block, x) for block in blocks) and _are_alike(blocks)
    return plain and not watched and known and has_kernel("one_row") and _has_room(x.get_device(), x.shape[-1])


def one_row(blocks: Sequence[Any], x: Tensor, shared: Pass) -> Tensor:
    """x (1,1,width) -> the same, behind all blocks; their keys and values join the cache."""
    cache: Any = shared.cache
    weights = [weight for block in blocks for part in _parts(block) for weight in (part.weight, part.bias)]
    factor, eps = blocks[0].attention.factor, blocks[0].attention_norm.eps
    given = weights, cache.keys, cache.values, cache.lengths, factor, eps, blocks[0].feed_forward.activation
    return torch.ops.clearhead.one_row(x, *given)


def _parts(block: Any) -> tuple[Any, ...]:
    """In the order of the kernel's table."""
    attention, feed_forward = block.attention, block.feed_forward
    return (
        block.attention_norm,
        attention.qkv,
        attention.out,
        block.feed_forward_norm,
        feed_forward.up,
        feed_forward.down,
    )


def _is_one_row(x: Tensor) -> bool:
    return NVIDIA and x.is_cuda and x.dtype == torch.bfloat16 and x.shape[0] == x.shape[1] == 1


def _has_room(gpu: int, width: int) -> bool:
    """Whether the GPU runs all programs at once, each with a share of the weights that fits its registers."""
    from ..ops.one_row import programs_for  # needs Triton

    return torch.cuda.get_device_properties(gpu).multi_processor_count >= programs_for(width)


_has_room._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


def _is_known(block: Any, x: Tensor) -> bool:
    """Whether a block is GPT-2's: no window, no rotary positions, heads of a power of two, nothing gated."""
    if type(block) is not PreNormBlock or block.training or block.cross is not None:
        return False
    feed_forward = block.feed_forward
    if not _attends_plainly(block.attention, x.shape[-1]) or type(feed_forward) is not FeedForward:
        return False
    first, qkv, out, second, up, down = _parts(block)
    known = feed_forward.activation in ACTIVATIONS and up.weight.shape[0] % 16 == 0
    norms = all(
        type(norm) is LayerNorm and norm.weight is not None and norm.bias is not None for norm in (first, second)
    )
    return known and norms and first.eps == second.eps and all(_is_plain(linear, x) for linear in (qkv, out, up, down))


def _attends_plainly(attention: SelfAttention, width: int) -> bool:
    heads = attention.heads
    usual = heads.count == heads.kv_count and heads.key == heads.value and heads.count * heads.key == width
    fits = width % 16 == 0 and width <= WIDEST and heads.key & (heads.key - 1) == 0
    return usual and fits and attention.window is None and attention.rotary is None and attention.path == "fused"


def _is_plain(linear: Any, x: Tensor) -> bool:
    if type(linear) is not Linear or linear.bias is None:
        return False
    return linear.weight.dtype == x.dtype and linear.weight.is_contiguous()


def _are_alike(blocks: Sequence[Any]) -> bool:
    """Whether one launch can do them all."""
    return len({_outline(block) for block in blocks}) == 1


def _outline(block: Any) -> tuple[Any, ...]:
    attention, feed_forward = block.attention, block.feed_forward
    sizes = attention.heads.count, feed_forward.up.weight.shape[0]
    return *sizes, attention.factor, block.attention_norm.eps, feed_forward.activation
