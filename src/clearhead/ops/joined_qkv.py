"""Queries, keys and values by one product, with a way back of our own where a GPU is trained: one pass, not two.

The gradients of the three are put side by side and, on the same way, added up for the bias.
The bias stays within the product, where a GPU's library adds it for nothing: so the whole product is one function here.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def split_heads(x: Tensor, count: int) -> Tensor:
    """(B,L,count*d) -> (B,count,L,d), a view."""
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


class _JoinedQkv(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, sizes: tuple[int, ...], counts: tuple[int, ...]
    ) -> tuple[Tensor, ...]:
        product = F.linear(x, weight, bias)
        # Autocast may have had the product in another dtype: its gradients are products in that one too.
        ctx.save_for_backward(x.to(product.dtype), weight.to(product.dtype))
        ctx.dtypes = x.dtype, weight.dtype, bias.dtype
        return tuple(split_heads(part, count) for part, count in zip(product.split(sizes, -1), counts, strict=True))

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        joined, sums = torch.ops.clearhead.join_heads(*upstream)
        found = (joined @ weight).view_as(x), joined.T @ x.reshape(-1, x.shape[-1]), sums.sum(0)
        return *(slope.to(dtype) for slope, dtype in zip(found, ctx.dtypes, strict=True)), None, None


def joined_qkv(
    x: Tensor, weight: Tensor, bias: Tensor, sizes: tuple[int, ...], counts: tuple[int, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """x (B,L,width) -> queries, keys and values (B,heads,L,d), views of x W^T + b; `has_kernel("qkv_kernel")` is true.

    sizes   how many outputs each of the three has
    counts  into how many heads they are split
    """
    return _JoinedQkv.apply(x, weight, bias, sizes, counts)  # pyright: ignore[reportReturnType]
