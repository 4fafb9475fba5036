"""A stack: N blocks, and a norm behind them where the family has one."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import ClearheadError
from ..trace import recording
from .block import Block, Pass
from .one_row import one_row, serves
from .row_skipping import skipping
from .streamed import streamed, streams


class Stack(nn.Module):
    """checkpointing  in training a block keeps nothing but its input and is computed again on the way back
    skipped        in training so large a share of the batch's rows goes around each block: see row_skipping.py
    """

    checkpointing = False
    skipped = 0.0

    def __init__(self, blocks: Iterable[Block], norm: nn.Module | None = None) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(blocks), norm

    def forward(self, x: Tensor, shared: Pass, rows: int | None = None) -> Tensor:
        """x (B,L,width) -> the same; with `rows` the last block answers for the first tokens alone."""
        run = _again if self.checkpointing and self._may_compute_again(shared) else _once
        if self.training and self.skipped:
            x = skipping(list(self.blocks), run, x, shared, rows, self.skipped)
        else:
            x = self._through(run, x, shared, rows)
        return x if self.norm is None else self.norm(x)

    def some(self, x: Tensor, shared: Pass, first: int, last: int | None = None) -> Tensor:
        """x (B,L,width) through the blocks from `first` to before `last` alone, without the norm; while training."""
        run = _again if self.checkpointing and self._may_compute_again(shared) else _once
        blocks = list(self.blocks)[first:last]
        if self.skipped:
            return skipping(blocks, run, x, shared, None, self.skipped)
        for layer, block in enumerate(blocks, first):
            own, place = _of_one(shared, layer)
            x = run(block, x, own, place, None)
        return x

    def _through(self, run: Callable[..., Tensor], x: Tensor, shared: Pass, rows: int | None) -> Tensor:
        blocks = list(self.blocks)
        if rows is None and serves(blocks, x, shared):
            return one_row(blocks, x, shared)
        alike = blocks if rows is None else blocks[:-1]
        if streams(alike, x, shared):
            x, blocks = streamed(alike, x, shared), blocks[len(alike) :]
        for layer, block in enumerate(blocks, len(self.blocks) - len(blocks)):
            own, place = _of_one(shared, layer)
            x = run(block, x, own, place, rows if layer == len(self.blocks) - 1 else None)
        return x

    def _may_compute_again(self, shared: Pass) -> bool:
        """Only where a way back comes, and nobody would see a block twice: neither a cache nor a recorder."""
        return self.training and torch.is_grad_enabled() and shared.cache is None and not recording()

    def remember(self, encoded: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The encoder's output as every block's cross-attention will see it: computed once a source."""
        return [block.cross.remember(encoded) for block in self.blocks]  # pyright: ignore


def _of_one(shared: Pass, layer: int) -> tuple[Pass, int]:
    """What one block has to know, and where it looks for its own: without a cache at the same place as all others, so
    that blocks which are alike are compiled once."""
    if shared.memory is None or shared.cache is not None:
        return shared, layer
    return replace(shared, memory=[shared.memory[layer]]), 0


def _once(block: nn.Module, *given: Any) -> Tensor:
    return block(*given)


def _again(block: nn.Module, *given: Any) -> Any:
    return checkpoint(block, *given, use_reentrant=False)


def set_drop_path(model: nn.Module, rate: float) -> None:
    """Drop path on a model's blocks: none in the first of a stack, growing evenly to `rate` in the last."""
    if not 0 <= rate < 1:
        raise ClearheadError(f"drop_path must be at least 0 and below 1, not {rate!r}")
    for stack in _stacks(model):
        for layer, block in enumerate(stack.blocks):
            block.drop_path = rate * layer / max(1, len(stack.blocks) - 1)  # pyright: ignore


def set_row_skipping(model: nn.Module, rate: float) -> None:
    """Stochastic depth that computes no row in vain, at one rate for every block of a model."""
    if not 0 <= rate < 1:
        raise ClearheadError(f"skip_rows must be at least 0 and below 1, not {rate!r}")
    for stack in _stacks(model):
        stack.skipped = rate


def set_checkpointing(model: nn.Module, on: bool) -> None:
    """Activation checkpointing in every stack of a model: less memory for one more forward pass."""
    for stack in _stacks(model):
        stack.checkpointing = on


def compile_blocks(model: nn.Module, dynamic: bool = False) -> None:
    """Compile each block in place: blocks that are alike share their code, and every shape gets code of its own.

    So are the norm behind them and every module that says `compiled_whole`, such as a convolution before them: torch's
    own kernels would go over their rows again and again. With `dynamic` one code serves all shapes but the first:
    not as fast as code of their own, but batches of many shapes need not wait for it.
    """
    parts = [block for stack in _stacks(model) for block in stack.blocks]
    parts += [stack.norm for stack in _stacks(model) if stack.norm is not None]
    parts += [module for module in model.modules() if getattr(module, "compiled_whole", False)]
    for part in parts:
        part.compile(dynamic=None if dynamic else False)


def _stacks(model: nn.Module) -> list[Stack]:
    found = [module for module in model.modules() if isinstance(module, Stack)]
    if not found:
        raise ClearheadError(f"a {type(model).__name__} has no stack of blocks")
    return found
