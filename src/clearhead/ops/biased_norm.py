"""Layer norm of rows plus one vector, in Triton: the norm of a stream that lacks its biases (layers/streamed.py).

A program holds a few whole rows, and the rows go through memory once. To be compared on a card with what the compiler
makes of the same. Importing this file needs Triton.
"""

# A type checker takes a kernel for a function of Python.
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor
from torch.library import custom_op

ROWS, WARPS = 4, 4  # of a program: at a width of 768 a thread asks four times for 16 bytes


@triton.jit
def _norm(
    stream, beside, weight, bias, normed, eps, rows,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    own = column < WIDTH
    there = (row < rows)[:, None] & own[None, :]
    at = row.to(tl.int64)[:, None] * WIDTH + column[None, :]
    x = tl.load(stream + at, there, 0.0).to(tl.float32) + tl.load(beside + column, own, 0.0).to(tl.float32)[None, :]
    scale, shift = tl.load(weight + column, own, 0.0).to(tl.float32), tl.load(bias + column, own, 0.0).to(tl.float32)
    centred = tl.where(own[None, :], x - tl.sum(x, 1)[:, None] / WIDTH, 0.0)
    factor = tl.rsqrt(tl.sum(centred * centred, 1) / WIDTH + eps)
    found = centred * factor[:, None] * scale[None, :] + shift[None, :]
    tl.store(normed + at, found.to(normed.dtype.element_ty), there)


@custom_op("clearhead::biased_norm", mutates_args=())
def biased_norm(stream: Tensor, beside: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """stream (...,width), the others (width,) -> the layer norm of stream + beside, in the stream's type."""
    stream, width = stream.contiguous(), stream.shape[-1]
    normed, rows = torch.empty_like(stream), stream.numel() // width
    vectors = beside.contiguous(), weight.contiguous(), bias.contiguous()
    sizes = {"WIDTH": width, "COLUMNS": triton.next_power_of_2(width), "ROWS": ROWS}
    _norm[(triton.cdiv(rows, ROWS),)](stream, *vectors, normed, eps, rows, **sizes, num_warps=WARPS)
    return normed


@biased_norm.register_fake
def _(stream: Tensor, beside: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    return torch.empty_like(stream, memory_format=torch.contiguous_format)
