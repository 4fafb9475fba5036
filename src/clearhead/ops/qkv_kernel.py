"""Attention's way back on a GPU, in Triton: the gradient of the product before it, and that of the product's bias.

The compiler makes two kernels of that: one puts the gradients of queries, keys and values together, the other reads all
three again to add up their columns. Here a program takes a strip of columns of one of the three down a stretch of rows,
writes it where it belongs and keeps the sums; the sums of all stretches are added by the caller. Importing this file
needs Triton.
"""

# A type checker takes a kernel for a function of Python.
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor
from torch.library import custom_op

STRETCH = 256  # rows of one program
ROWS, COLUMNS, WARPS = 32, 128, 8  # of a tile: 16 numbers a thread, and 16 bytes in each of its loads


@triton.jit
def _down_the_rows(
    part, joined, sums, strip, stretch, rows, length, of_batch, of_head, of_token,
    BEFORE: tl.constexpr, HEADS: tl.constexpr, FEATURES: tl.constexpr, WIDE: tl.constexpr,
    STRETCH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A strip of one part, which has BEFORE columns of others before it; `of_` are the strides that it is read with."""
    column = strip * COLUMNS + tl.arange(0, COLUMNS)
    there = column < HEADS * FEATURES
    across = (column // FEATURES).to(tl.int64) * of_head + column % FEATURES
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for tile in range(STRETCH // ROWS):
        row = stretch * STRETCH + tile * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & there[None, :]
        down = (row // length).to(tl.int64) * of_batch + (row % length).to(tl.int64) * of_token
        found = tl.load(part + down[:, None] + across[None, :], inside, 0.0)
        tl.store(joined + row.to(tl.int64)[:, None] * WIDE + (BEFORE + column)[None, :], found, inside)
        total += found.to(tl.float32)
    tl.store(sums + stretch.to(tl.int64) * WIDE + BEFORE + column, tl.sum(total, 0), there)


@triton.jit
def _join(
    query, key, value, joined, sums, rows, length,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token,
    HEADS: tl.constexpr, GROUPS: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr,
    STRETCH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Programs are numbered along the columns first: those that run together write whole rows."""
    KEYS: tl.constexpr = HEADS * KEY  # where the columns of the keys begin
    VALUES: tl.constexpr = KEYS + GROUPS * KEY
    WIDE: tl.constexpr = VALUES + GROUPS * VALUE
    FIRST: tl.constexpr = (HEADS * KEY + COLUMNS - 1) // COLUMNS  # strip of the keys: no strip has columns of two parts
    SECOND: tl.constexpr = FIRST + (GROUPS * KEY + COLUMNS - 1) // COLUMNS
    STRIPS: tl.constexpr = SECOND + (GROUPS * VALUE + COLUMNS - 1) // COLUMNS
    strip, stretch = tl.program_id(0) % STRIPS, tl.program_id(0) // STRIPS
    if strip < FIRST:
        _down_the_rows(
            query, joined, sums, strip, stretch, rows, length, q_batch, q_head, q_token,
            0, HEADS, KEY, WIDE, STRETCH, ROWS, COLUMNS,
        )  # fmt: skip
    elif strip < SECOND:
        _down_the_rows(
            key, joined, sums, strip - FIRST, stretch, rows, length, k_batch, k_head, k_token,
            KEYS, GROUPS, KEY, WIDE, STRETCH, ROWS, COLUMNS,
        )  # fmt: skip
    else:
        _down_the_rows(
            value, joined, sums, strip - SECOND, stretch, rows, length, v_batch, v_head, v_token,
            VALUES, GROUPS, VALUE, WIDE, STRETCH, ROWS, COLUMNS,
        )  # fmt: skip


@custom_op("clearhead::join_heads", mutates_args=())
def join_heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """query (B,H,L,d_k), key (B,G,L,d_k), value (B,G,L,d_v) -> all of a token in one row, and the columns' sums.

    The rows are (B*L, columns), the sums (stretches, columns) in float32, to be added up. Strides are as they come.
    """
    parts = [part if part.stride(-1) == 1 else part.contiguous() for part in (query, key, value)]
    (batch, heads, length, features), (groups, wide) = query.shape, value.shape[1::2]
    sizes = [part.shape[1] * part.shape[3] for part in parts]
    rows, columns, stretches = batch * length, sum(sizes), triton.cdiv(batch * length, STRETCH)
    joined = query.new_empty(rows, columns)
    sums = query.new_empty(stretches, columns, dtype=torch.float32)
    grid = (stretches * sum(triton.cdiv(size, COLUMNS) for size in sizes),)
    strides = [stride for part in parts for stride in part.stride()[:3]]
    _join[grid](
        *parts, joined, sums, rows, length, *strides,
        heads, groups, features, wide, STRETCH, ROWS, COLUMNS, num_warps=WARPS,
    )  # fmt: skip
    return joined, sums


@join_heads.register_fake
def _(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    rows = query.shape[0] * query.shape[2]
    columns = sum(part.shape[1] * part.shape[3] for part in (query, key, value))
    return query.new_empty(rows, columns), query.new_empty(-(-rows // STRETCH), columns, dtype=torch.float32)
