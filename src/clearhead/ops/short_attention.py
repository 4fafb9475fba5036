"""Attention within short rows, in Triton: up to 128 tokens that all see each other, turned by where they stand.

A program has one head of one row: queries, keys and scores all fit into its registers, so nothing is kept for the way
back but the product that they come from, and its gradient is written as one. The usual way is a kernel for turning, one
for attention, and on the way back three more that turn, and put together what was taken apart. Importing this file
needs Triton.
"""

# A type checker takes a kernel for a function of Python.
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false, reportGeneralTypeIssues=false

from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor
from torch.library import custom_op

WARPS = 4  # of a program, for rows of up to 64 tokens; longer ones have twice as many


@triton.jit
def _halves(pointer, row, there, STRIDE: tl.constexpr, HALF: tl.constexpr):
    """The two halves of each token's features, (tokens, HALF) both: a pair that is turned has one in each."""
    feature = tl.arange(0, HALF)
    at = pointer + row[:, None] * STRIDE + feature[None, :]
    return tl.load(at, there[:, None], 0.0), tl.load(at + HALF, there[:, None], 0.0)


@triton.jit
def _angles(table, places, row, there, LENGTH: tl.constexpr, HALF: tl.constexpr):
    """Cosines and sines of each token: the table (ops/positions.py) holds both twice, the first sines negative."""
    place = row if places is None else tl.load(places + tl.program_id(0) * LENGTH + row, there, 0)
    at = table + place[:, None] * (4 * HALF) + tl.arange(0, HALF)[None, :]
    return tl.load(at, there[:, None], 0.0), tl.load(at + 3 * HALF, there[:, None], 0.0)


@triton.jit
def _turned(first, second, cos, sin):
    a, b = first.to(tl.float32), second.to(tl.float32)
    return (a * cos - b * sin).to(first.dtype), (b * cos + a * sin).to(first.dtype)


@triton.jit
def _asked(
    product, table, places, scale,
    LENGTH: tl.constexpr, TOKENS: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    """One head of one row: its weights, and in halves the queries and keys that they come from, and the values."""
    WIDTH: tl.constexpr = HEADS * 2 * HALF
    row = tl.arange(0, TOKENS)
    there = row < LENGTH
    own = product + tl.program_id(0).to(tl.int64) * (LENGTH * 3 * WIDTH) + tl.program_id(1) * (2 * HALF)
    q1, q2 = _halves(own, row, there, 3 * WIDTH, HALF)
    k1, k2 = _halves(own + WIDTH, row, there, 3 * WIDTH, HALF)
    if TURNED:
        cos, sin = _angles(table, places, row, there, LENGTH, HALF)
        q1, q2 = _turned(q1, q2, cos, sin)
        k1, k2 = _turned(k1, k2, cos, sin)
    scores = (tl.dot(q1, tl.trans(k1)) + tl.dot(q2, tl.trans(k2))) * scale
    scores = tl.where(there[None, :], scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    v1, v2 = _halves(own + 2 * WIDTH, row, there, 3 * WIDTH, HALF)
    return weights / tl.sum(weights, 1)[:, None], q1, q2, k1, k2, v1, v2


@triton.jit
def _look(
    product, table, places, answer, scale,
    LENGTH: tl.constexpr, TOKENS: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    WIDTH: tl.constexpr = HEADS * 2 * HALF
    weights, _, _, _, _, v1, v2 = _asked(product, table, places, scale, LENGTH, TOKENS, HEADS, HALF, TURNED)
    row, head = tl.arange(0, TOKENS), tl.program_id(1) * (2 * HALF)
    there = row < LENGTH
    start = tl.program_id(0).to(tl.int64) * (LENGTH * WIDTH)
    at = answer + start + head + row[:, None] * WIDTH + tl.arange(0, HALF)[None, :]
    tl.store(at, tl.dot(weights.to(v1.dtype), v1).to(v1.dtype), there[:, None])
    tl.store(at + HALF, tl.dot(weights.to(v2.dtype), v2).to(v2.dtype), there[:, None])


@triton.jit
def _go_back(
    product, table, places, upstream, gradient, scale,
    LENGTH: tl.constexpr, TOKENS: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    """Everything anew from the product, then its gradient: queries, keys and values side by side, as it has them."""
    WIDTH: tl.constexpr = HEADS * 2 * HALF
    weights, q1, q2, k1, k2, v1, v2 = _asked(product, table, places, scale, LENGTH, TOKENS, HEADS, HALF, TURNED)
    row, head = tl.arange(0, TOKENS), tl.program_id(1) * (2 * HALF)
    there = row < LENGTH
    start = tl.program_id(0).to(tl.int64) * (LENGTH * WIDTH)
    o1, o2 = _halves(upstream + start + head, row, there, WIDTH, HALF)
    across = tl.trans(weights.to(v1.dtype))
    to = gradient + 3 * start + head + row[:, None] * (3 * WIDTH) + tl.arange(0, HALF)[None, :]
    tl.store(to + 2 * WIDTH, tl.dot(across, o1).to(v1.dtype), there[:, None])
    tl.store(to + 2 * WIDTH + HALF, tl.dot(across, o2).to(v1.dtype), there[:, None])
    slopes = tl.dot(o1, tl.trans(v1)) + tl.dot(o2, tl.trans(v2))
    slopes = weights * (slopes - tl.sum(weights * slopes, 1)[:, None]) * scale
    slopes = slopes.to(v1.dtype)
    _store_unturned(to, tl.dot(slopes, k1), tl.dot(slopes, k2), table, places, row, there, LENGTH, HALF, TURNED)
    turned = tl.trans(slopes)
    to += WIDTH
    _store_unturned(to, tl.dot(turned, q1), tl.dot(turned, q2), table, places, row, there, LENGTH, HALF, TURNED)


@triton.jit
def _store_unturned(
    to, first, second, table, places, row, there, LENGTH: tl.constexpr, HALF: tl.constexpr, TURNED: tl.constexpr
):
    """Gradients of what was turned, turned back."""
    if TURNED:
        cos, sin = _angles(table, places, row, there, LENGTH, HALF)
        first, second = first * cos + second * sin, second * cos - first * sin
    tl.store(to, first.to(to.dtype.element_ty), there[:, None])
    tl.store(to + HALF, second.to(to.dtype.element_ty), there[:, None])


def _sizes(product: Tensor, heads: int, table: Tensor | None) -> dict[str, Any]:
    length, half = product.shape[1], product.shape[2] // (6 * heads)
    tokens = max(16, triton.next_power_of_2(length))
    turned, warps = table is not None, WARPS if tokens <= 64 else 2 * WARPS
    return {"LENGTH": length, "TOKENS": tokens, "HEADS": heads, "HALF": half, "TURNED": turned, "num_warps": warps}


@custom_op("clearhead::short_attention", mutates_args=())
def short_attention(
    product: Tensor, heads: int, scale: float, table: Tensor | None = None, places: Tensor | None = None
) -> Tensor:
    """product (B,L,3*width): queries, keys and values of all heads side by side -> (B,L,width).

    table   (positions,2,d) float32, what `ops.positions.turns` gives: queries and keys are turned by it
    places  (B,L) where each token stands; 0..L-1 unless given
    """
    product, (batch, length, wide) = product.contiguous(), product.shape
    answer = product.new_empty(batch, length, wide // 3)
    at = None if places is None else places.contiguous()
    _look[(batch, heads)](product, table, at, answer, scale, **_sizes(product, heads, table))
    return answer


@short_attention.register_fake
def _(product: Tensor, heads: int, scale: float, table: Any = None, places: Any = None) -> Tensor:
    return product.new_empty(*product.shape[:2], product.shape[2] // 3)


@custom_op("clearhead::short_attention_backward", mutates_args=())
def short_attention_backward(
    product: Tensor, upstream: Tensor, heads: int, scale: float, table: Tensor | None, places: Tensor | None
) -> Tensor:
    product, upstream = product.contiguous(), upstream.contiguous()
    gradient = torch.empty_like(product)
    at = None if places is None else places.contiguous()
    _go_back[(len(product), heads)](product, table, at, upstream, gradient, scale, **_sizes(product, heads, table))
    return gradient


@short_attention_backward.register_fake
def _(product: Tensor, upstream: Tensor, heads: int, scale: float, table: Any, places: Any) -> Tensor:
    return torch.empty_like(product)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    product, ctx.heads, ctx.scale, table, places = inputs
    ctx.save_for_backward(product, table, places)


def _backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
    product, table, places = ctx.saved_tensors
    found = short_attention_backward(product, upstream, ctx.heads, ctx.scale, table, places)
    return found, None, None, None, None


short_attention.register_autograd(_backward, setup_context=_keep)
