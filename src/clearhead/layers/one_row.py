"""Which passes the kernel of a whole layer serves, and the call of it: see ops/one_row.py.

It is for the step that writes one text on a GPU, in the shapes of GPT-2. Whoever wants to see inside gets the layers
one by one, as everywhere else.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..ops.kernels import has_kernel
from ..trace import recording
from .attention import SelfAttention
from .feed_forward import FeedForward
from .linear import Linear
from .norm import LayerNorm

if TYPE_CHECKING:
    from .block import Block, Pass

ACTIVATIONS = ("gelu-tanh", "gelu", "relu")
WIDEST = 1280  # a program keeps its share of a weight in registers, and wider ones don't fit
NVIDIA = torch.version.cuda is not None


def serves(block: "Block", x: Tensor, shared: "Pass") -> bool:
    """Whether the kernel computes what this block would for this pass."""
    if shared.cache is None or shared.cache.bucket is None or not _is_one_row(x):
        return False
    plain = shared.bias is None and shared.memory is None and shared.scale == 1.0 and block.cross is None
    watched = recording() or block.training or torch.is_grad_enabled() or torch.is_autocast_enabled(x.device.type)
    known = _is_known(block.attention, block.feed_forward, x) and _have_norms(block)
    return plain and not watched and known and has_kernel("one_row")


def one_row(block: Any, x: Tensor, shared: "Pass", layer: int) -> Tensor:
    """x (1,1,width) -> the same, behind the block; its key and value join the cache."""
    cache: Any = shared.cache
    attention, norm, feed_forward = block.attention, block.attention_norm, block.feed_forward
    parts = (norm, attention.qkv, attention.out, block.feed_forward_norm, feed_forward.up, feed_forward.down)
    weights = [weight for part in parts for weight in (part.weight, part.bias)]
    stores = cache.keys[layer], cache.values[layer], cache.lengths
    return torch.ops.clearhead.one_row(x, *weights, *stores, attention.factor, norm.eps, feed_forward.activation)


def _is_one_row(x: Tensor) -> bool:
    return NVIDIA and x.is_cuda and x.dtype == torch.bfloat16 and x.shape[0] == x.shape[1] == 1


def _is_known(attention: SelfAttention, feed_forward: Any, x: Tensor) -> bool:
    """Whether the parts are GPT-2's: no window, no rotary positions, heads of a power of two, nothing gated."""
    heads, width = attention.heads, x.shape[-1]
    usual = heads.count == heads.kv_count and heads.key == heads.value and heads.count * heads.key == width
    fits = width % 16 == 0 and width <= WIDEST and heads.key & (heads.key - 1) == 0
    if not (usual and fits and attention.window is None and attention.rotary is None and attention.path == "fused"):
        return False
    if type(feed_forward) is not FeedForward or feed_forward.activation not in ACTIVATIONS:
        return False
    linears = (attention.qkv, attention.out, feed_forward.up, feed_forward.down)
    return feed_forward.up.weight.shape[0] % 16 == 0 and all(_is_plain(linear, x) for linear in linears)


def _is_plain(linear: Any, x: Tensor) -> bool:
    if type(linear) is not Linear or linear.bias is None:
        return False
    return linear.weight.dtype == x.dtype and linear.weight.is_contiguous()


def _have_norms(block: Any) -> bool:
    norms = (block.attention_norm, block.feed_forward_norm)
    known = all(type(norm) is LayerNorm and norm.weight is not None and norm.bias is not None for norm in norms)
    return known and norms[0].eps == norms[1].eps
