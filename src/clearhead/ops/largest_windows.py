"""CCT's tokenizer in Triton: what a 3 x 3 convolution gives around every second pixel, the largest of it, and ReLU.

The usual way writes the convolution of every pixel, four times as many rows as are left behind the pooling, and goes
over them again for ReLU, for the pooling and for each of them on the way back. Here a program makes the nine candidates
of some rows one behind the other and keeps the largest and which one it was; only rows that go on are made at all. The
way back to the weights reads that, and cuts the windows out of the pictures anew, which a GPU's cache holds. There is
no way back to the pixels. Importing this file needs Triton.
"""

# A type checker takes a kernel for a function of Python.
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false, reportGeneralTypeIssues=false

from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor
from torch.library import custom_op

STEP = 2  # pixels from one row's middle to the next one's
NONE = 9  # stands for no candidate, where the largest is not above zero
ROWS, COLUMNS, WARPS = 64, 128, 8
SHARES = 132  # of the rows at most, each summed by programs of its own: as many as a GPU has processors


@triton.jit
def _middles(at, row, there, KEPT: tl.constexpr, ACROSS: tl.constexpr, STEP: tl.constexpr):
    """Which picture each row is of, and the pixel in its middle."""
    place = row % KEPT if at is None else tl.load(at + row, there, 0).to(tl.int32)
    return row // KEPT, place // ACROSS * STEP, place % ACROSS * STEP


@triton.jit
def _window(
    images, picture, y, x, there,
    CHANNELS: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    """The pixels around (y, x) of each row's picture, (rows, PIXELS): channel, row, column; zeros beyond the edge."""
    number = tl.arange(0, PIXELS)[None, :]
    down, right = y[:, None] + number % 9 // 3 - 1, x[:, None] + number % 3 - 1
    inside = there[:, None] & (number < 9 * CHANNELS) & (down >= 0) & (down < HIGH) & (right >= 0) & (right < WIDE)
    where = (picture[:, None] * CHANNELS + number // 9) * (HIGH * WIDE) + down * WIDE + right
    return tl.load(images + where, inside, 0.0)


@triton.jit
def _take_largest(
    images, weight, at, answer, which, total, wide,
    KEPT: tl.constexpr, ACROSS: tl.constexpr, CHANNELS: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr,
    PIXELS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr, NONE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column, number = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, PIXELS)
    there, asked = row < total, column < wide
    picture, y, x = _middles(at, row, there, KEPT, ACROSS, STEP)
    known = (number < 9 * CHANNELS)[:, None] & asked[None, :]
    kernel = tl.load(weight + column[None, :] * (9 * CHANNELS) + number[:, None], known, 0.0)
    kernel = kernel.to(images.dtype.element_ty)
    best = tl.full((ROWS, COLUMNS), float("-inf"), tl.float32)
    found = tl.full((ROWS, COLUMNS), 0, tl.int32)
    for one in range(9):
        down, right = y + (one // 3 - 1), x + (one % 3 - 1)
        window = _window(images, picture, down, right, there, CHANNELS, HIGH, WIDE, PIXELS)
        inside = (down >= 0) & (down < HIGH) & (right >= 0) & (right < WIDE)
        candidate = tl.dot(window, kernel, input_precision="ieee")
        larger = (candidate > best) & inside[:, None]
        best, found = tl.where(larger, candidate, best), tl.where(larger, one, found)
    found = tl.where(best > 0.0, found, NONE)
    to, written = row[:, None].to(tl.int64) * wide + column[None, :], there[:, None] & asked[None, :]
    tl.store(answer + to, tl.maximum(best, 0.0).to(answer.dtype.element_ty), written)
    tl.store(which + to, found.to(tl.uint8), written)


@triton.jit
def _sum_slopes(
    images, at, upstream, which, sums, total, wide, TURNS: tl.constexpr,
    KEPT: tl.constexpr, ACROSS: tl.constexpr, CHANNELS: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr,
    PIXELS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """A share of the rows' gradient of some columns of the weight: one of (shares, wide, PIXELS)."""
    column, number = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, PIXELS)
    asked = column < wide
    slopes = tl.zeros((COLUMNS, PIXELS), tl.float32)
    for turn in range(TURNS):
        row = (turn * tl.num_programs(0) + tl.program_id(0)) * ROWS + tl.arange(0, ROWS)
        there = row < total
        picture, y, x = _middles(at, row, there, KEPT, ACROSS, STEP)
        given, read = row[None, :].to(tl.int64) * wide + column[:, None], asked[:, None] & there[None, :]
        slope, found = tl.load(upstream + given, read, 0.0), tl.load(which + given, read, 0).to(tl.int32)
        for one in range(9):
            down, right = y + (one // 3 - 1), x + (one % 3 - 1)
            window = _window(images, picture, down, right, there, CHANNELS, HIGH, WIDE, PIXELS)
            own = tl.where(found == one, slope, 0.0).to(window.dtype)
            slopes += tl.dot(own, window, input_precision="ieee")
    to = (tl.program_id(0) * wide + column[:, None]) * PIXELS + number[None, :]
    tl.store(sums + to, slopes, asked[:, None])


def _sizes(images: Tensor, kept: int) -> dict[str, Any]:
    _, channels, high, wide = images.shape
    pixels = max(16, triton.next_power_of_2(9 * channels))
    sizes = {"KEPT": kept, "ACROSS": wide // STEP, "CHANNELS": channels, "HIGH": high, "WIDE": wide, "PIXELS": pixels}
    return sizes | {"ROWS": ROWS, "COLUMNS": COLUMNS, "STEP": STEP, "num_warps": WARPS}


def _shares(total: int) -> int:
    """How many programs sum up the gradients of so many rows."""
    return min(SHARES, -(-total // ROWS))


def _kept(images: Tensor, at: Tensor | None) -> int:
    """How many rows of each picture are made."""
    return images.shape[2] // STEP * (images.shape[3] // STEP) if at is None else at.shape[1]


@custom_op("clearhead::largest_windows", mutates_args=())
def largest_windows(images: Tensor, weight: Tensor, at: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """images (B,C,H,W), weight (width, C*9), at (B,K): which rows are made, all unless given.

    -> (B,K,width) in the images' type: for each row the largest of nine convolutions, or zero; and which of the nine it
    was, or NONE, as uint8.
    """
    images, weight, kept = images.contiguous(), weight.contiguous(), _kept(images, at)
    total, wide = len(images) * kept, len(weight)
    answer = images.new_empty(len(images), kept, wide)
    which = torch.empty_like(answer, dtype=torch.uint8)
    grid = triton.cdiv(total, ROWS), triton.cdiv(wide, COLUMNS)
    taken = None if at is None else at.contiguous()
    sizes = _sizes(images, kept)
    _take_largest[grid](images, weight, taken, answer, which, total, wide, NONE=NONE, **sizes)
    return answer, which


@largest_windows.register_fake
def _(images: Tensor, weight: Tensor, at: Tensor | None = None) -> tuple[Tensor, Tensor]:
    answer = images.new_empty(len(images), _kept(images, at), len(weight))
    return answer, torch.empty_like(answer, dtype=torch.uint8)


@custom_op("clearhead::largest_windows_backward", mutates_args=())
def largest_windows_backward(images: Tensor, at: Tensor | None, upstream: Tensor, which: Tensor) -> Tensor:
    """The gradient of the weight, float32, in as many parts as programs have summed: (parts, width, C*9)."""
    images, upstream, which = images.contiguous(), upstream.contiguous(), which.contiguous()
    (batch, kept, wide), sizes = upstream.shape, _sizes(images, upstream.shape[1])
    total, shares = batch * kept, _shares(batch * kept)
    sums = images.new_empty(shares, wide, sizes["PIXELS"], dtype=torch.float32)
    taken, turns = None if at is None else at.contiguous(), triton.cdiv(total, ROWS * shares)
    grid = shares, triton.cdiv(wide, COLUMNS)
    _sum_slopes[grid](images, taken, upstream, which, sums, total, wide, turns, **sizes)
    return sums[..., : 9 * images.shape[1]].contiguous()


@largest_windows_backward.register_fake
def _(images: Tensor, at: Tensor | None, upstream: Tensor, which: Tensor) -> Tensor:
    batch, kept, wide = upstream.shape
    return images.new_empty(_shares(batch * kept), wide, 9 * images.shape[1], dtype=torch.float32)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    images, weight, at = inputs
    if images.requires_grad:
        raise RuntimeError("largest_windows has no way back to the pixels")
    ctx.dtype = weight.dtype
    ctx.save_for_backward(images, at, output[1])


def _backward(ctx: Any, upstream: Tensor, _: Tensor | None) -> tuple[None, Tensor, None]:
    images, at, which = ctx.saved_tensors
    return None, largest_windows_backward(images, at, upstream, which).sum(0).to(ctx.dtype), None


largest_windows.register_autograd(_backward, setup_context=_keep)
