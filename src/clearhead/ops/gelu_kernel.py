"""GELU's way back on a GPU, in Triton: the gradient of its input, and on the same way the one of the bias before it.

The compiler makes two kernels of that: one writes the gradient, the other reads everything again to add up its columns.
Here a program takes a strip of columns down a stretch of rows, writes the gradient and keeps the sums; the sums of all
stretches are added by the caller. Importing this file needs Triton.
"""

# A type checker takes a kernel for a function of Python.
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor
from torch.library import custom_op

STRETCH = 256  # rows of one program
ROWS, COLUMNS, WARPS = 16, 256, 8  # of a tile: 16 numbers a thread, and 16 bytes in each of its loads


@triton.jit
def slope_of_gelu(z, BY_TANH: tl.constexpr):
    """The derivative at z, in float32."""
    if BY_TANH:
        share = tl.sigmoid(1.5957691216057308 * (z + 0.044715 * z * z * z))
        return share + z * share * (1 - share) * (1.5957691216057308 * (1 + 0.134145 * z * z))
    below = 0.5 * (1 + tl.erf(z * 0.7071067811865476))
    return below + z * 0.3989422804014327 * tl.exp(-0.5 * z * z)


@triton.jit
def _down_the_rows(
    upstream, product, bias, gradient, sums, rows, columns,
    STRETCH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BY_TANH: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there = column < columns
    added = tl.load(bias + column, there, 0.0).to(tl.float32)[None, :]
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for tile in range(STRETCH // ROWS):
        row = tl.program_id(0) * STRETCH + tile * ROWS + tl.arange(0, ROWS)
        at = row.to(tl.int64)[:, None] * columns + column[None, :]
        inside = (row < rows)[:, None] & there[None, :]
        slope = slope_of_gelu(tl.load(product + at, inside, 0.0).to(tl.float32) + added, BY_TANH)
        found = tl.load(upstream + at, inside, 0.0).to(tl.float32) * slope
        tl.store(gradient + at, found.to(gradient.dtype.element_ty), inside)
        total += found
    tl.store(sums + tl.program_id(0) * columns + column, tl.sum(total, 0), there)


@custom_op("clearhead::gelu_backward", mutates_args=())
def gelu_backward(upstream: Tensor, product: Tensor, bias: Tensor, by_tanh: bool) -> tuple[Tensor, Tensor]:
    """upstream and product (rows, columns), bias (columns,) -> the gradient of product + bias, and its columns' sums.

    The sums are (stretches, columns) in float32, to be added up.
    """
    upstream, product, (rows, columns) = upstream.contiguous(), product.contiguous(), product.shape
    stretches = triton.cdiv(rows, STRETCH)
    gradient = torch.empty_like(product)
    sums = torch.empty(stretches, columns, dtype=torch.float32, device=product.device)
    grid = (stretches, triton.cdiv(columns, COLUMNS))
    _down_the_rows[grid](
        upstream, product, bias, gradient, sums, rows, columns, STRETCH, ROWS, COLUMNS, by_tanh, num_warps=WARPS
    )
    return gradient, sums


@gelu_backward.register_fake
def _(upstream: Tensor, product: Tensor, bias: Tensor, by_tanh: bool) -> tuple[Tensor, Tensor]:
    stretches = -(-product.shape[0] // STRETCH)
    return torch.empty_like(product), product.new_empty(stretches, product.shape[1], dtype=torch.float32)
