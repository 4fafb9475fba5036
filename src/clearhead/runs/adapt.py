"""Weights for one architecture put into a slightly different one: another resolution, another number of classes."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import ClearheadError
from ..models import Config, Model
from ..models.bert import BERT, BERTConfig
from ..models.vit import ViTConfig
from .heads import with_heads

POSITIONS = "input.positions.weight"
ADAPTABLE = ("image", "num_classes", "task")  # fields that weights made for another value can be fitted to


def adapted(
    state: dict[str, Tensor], before: Config, model: Model, changes: Mapping[str, Any]
) -> tuple[dict[str, Tensor], list[str]]:
    """The state for `model` (on the meta device) out of one read for config `before`, and what was made new."""
    after, notes = model.config, []
    if isinstance(before, ViTConfig) and isinstance(after, ViTConfig):
        if before.grid != after.grid and POSITIONS in state:
            state[POSITIONS] = interpolated(state[POSITIONS], before.grid, after.grid)
            notes.append(f"positions interpolated from {_by(before.grid)} to {_by(after.grid)} patches")
        if before.grid != after.grid and before.rotary_base is not None and after.rotary_span is None:
            notes.append(_stretched(before.grid, after.grid))
        if before.num_classes != after.num_classes or "output.weight" not in state:
            notes.append(_new_head(state, before, after, asked="num_classes" in changes))
    if isinstance(before, BERTConfig) and isinstance(model, BERT):
        notes += with_heads(state, before, model, asked="task" in changes or "num_classes" in changes)
    _check_fit(state, model, changes)
    return state, notes


def _check_fit(state: dict[str, Tensor], model: Model, changes: Mapping[str, Any]) -> None:
    said = ", ".join(f"{name} = {value!r}" for name, value in changes.items())
    wanted = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    have = {name: tuple(tensor.shape) for name, tensor in state.items()}
    for name in wanted | have:
        if wanted.get(name) != have.get(name):
            raise ClearheadError(
                f"{said} does not fit these weights: {name} would have shape {wanted.get(name)}, not {have.get(name)}"
            )


def interpolated(table: Tensor, before: tuple[int, int], after: tuple[int, int]) -> Tensor:
    """Learned positions (prefix + rows * columns, width) for another grid: bicubic, the prefix ([CLS]) as it was."""
    prefix = len(table) - before[0] * before[1]
    grid = table[prefix:].float().T.reshape(1, -1, *before)
    grid = F.interpolate(grid, size=after, mode="bicubic", antialias=True, align_corners=False)
    return torch.cat([table[:prefix], grid.flatten(2)[0].T.to(table.dtype)])


def _new_head(state: dict[str, Tensor], before: ViTConfig, after: ViTConfig, asked: bool) -> str:
    missing = "output.weight" not in state
    if missing and not asked:
        raise ClearheadError("these weights have no classification head: give num_classes=N to put a new one on")
    like = state["input.project.weight"]
    state["output.weight"] = like.new_zeros(after.num_classes, after.width)
    state["output.bias"] = like.new_zeros(after.num_classes)
    why = "the file has none" if missing else f"the file's has {before.num_classes}"
    return f"a new head of zeros for {after.num_classes} classes ({why})"


def _stretched(before: tuple[int, int], after: tuple[int, int]) -> str:
    mended = f": rotary_span={before[0]} keeps near and far where they were" if before[0] == before[1] else ""
    return f"rotary positions count {_by(after)} patches, and were learnt for {_by(before)}{mended}"


def _by(grid: tuple[int, int]) -> str:
    return f"{grid[0]} x {grid[1]}"
