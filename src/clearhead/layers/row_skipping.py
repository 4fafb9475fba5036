"""Stochastic depth that saves its work: of every batch a fixed number of rows goes around each block, not through it.

A block works on the first rows of the batch, which then stand behind the ones that went around it: so these come first
in the next block, every shape is static, and nothing is computed to be thrown away. Twice on the way the rows are
shuffled, so that others travel together. What a block adds is larger by the share of rows that it is not computed for,
so that the mean is what it is without. It has one rate for all blocks; `drop_path` has the masked kind.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ClearheadError
from .block import Pass

PARTS = 3  # the rows are shuffled between these parts of a stack


class _Reordered(torch.autograd.Function):
    """x[order] for a permutation. Its gradient is a look-up as well, where an index's own would add up."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return x[order]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        return grads[0][inverse(order)], None


def working_rows(batch: int, rate: float) -> int:
    """How many rows of a batch a block is computed for."""
    return max(1, round(batch * (1 - rate)))


def skipping(
    blocks: Sequence[nn.Module],
    run: Callable[..., Tensor],
    x: Tensor,
    shared: Pass,
    rows: int | None,
    rate: float,
) -> Tensor:
    """x (B,L,width) through the blocks, each for a part of the batch; `run(block, x, shared, layer, rows)` does one.

    The result is in the order of x. With `rows` the last block answers for the first tokens alone.
    """
    if any(part is not None for part in (shared.mask, shared.bias, shared.cache, shared.memory)):
        raise ClearheadError("skip_rows is for pictures: rows of a text have masks and memories of their own")
    batch, last = len(x), len(blocks) - 1
    working = working_rows(batch, rate)
    order, places = torch.arange(batch, device=x.device), shared.positions
    for layer, block in enumerate(blocks):
        if layer in _shuffles(len(blocks)):
            drawn = torch.rand(batch, device=x.device).argsort()
            x, order, places = reordered(x, drawn), order[drawn], None if places is None else places[drawn]
        some, some_rows = places if places is None else places[:working], rows if layer == last else None
        own = replace(shared, positions=some, skipped=batch - working, scale=batch / working)
        x = run(block, x, own, layer, some_rows)
        order, places = order.roll(-working), None if places is None else places.roll(-working, 0)
    return reordered(x, inverse(order))


def inverse(order: Tensor) -> Tensor:
    """Where each number stands in a permutation. What `argsort` gives too, at the price of sorting."""
    places = torch.arange(len(order), device=order.device)
    return torch.empty_like(order).scatter_(0, order, places)


def reordered(x: Tensor, order: Tensor) -> Tensor:
    """x[order], `order` being a permutation of its rows."""
    return _Reordered.apply(x, order)  # pyright: ignore[reportReturnType]


def _shuffles(layers: int) -> set[int]:
    return {layers * part // PARTS for part in range(1, PARTS)} - {0}
