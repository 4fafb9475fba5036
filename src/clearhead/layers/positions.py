"""Positions as modules: a fixed table, a learned table, or a rotation of queries and keys."""

from typing import Any, Self

import torch
from torch import Tensor, nn

from ..ops import positions as ops


class FixedPositions(nn.Module):
    """A table (n, width) that nothing trains, such as the sinusoids. It is computed, never saved."""

    def __init__(self, count: int, width: int, make: "ops.Table") -> None:
        super().__init__()
        self.make = make
        self.register_buffer("table", torch.empty(count, width), persistent=False)
        if not torch.empty(0).is_meta:  # there it would cost a second and compute nothing
            self.reset_buffers()

    def reset_buffers(self) -> None:
        """Compute the table again: a model built on the meta device has it only then."""
        self.register_buffer("table", self.make(), persistent=False)

    def forward(self, count: int, positions: Tensor | None = None) -> Tensor:
        table: Tensor = self.table  # pyright: ignore[reportAssignmentType]
        return table[:count] if positions is None else table[positions]


class LearnedPositions(nn.Module):
    """A table (n, width) learned like any other weight."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, width))

    def forward(self, count: int, positions: Tensor | None = None) -> Tensor:
        return self.weight[:count] if positions is None else nn.functional.embedding(positions, self.weight)


class Rotary(nn.Module):
    """Turns each pair of features of a query or key by an angle that grows with its position (Su et al. 2021)."""

    def __init__(self, width: int, base: float = 10000.0) -> None:
        super().__init__()
        self.width, self.base = width, base

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """x (B,H,L,d); positions (B,L), or 0..L-1 when not given."""
        if positions is None:
            return ops.rotate(
                x, ops.rotary_angles(torch.arange(x.shape[-2], device=x.device), self.width, base=self.base)
            )
        return ops.rotate(x, ops.rotary_angles(positions, self.width, base=self.base)[:, None])


class GridRotary(nn.Module):
    """2-D rotary positions: half of the pairs turn with a patch's row in the picture, half with its column.

    One patch is one unit, or `span` units are a picture's height and width, however many patches that is: then a model
    finds near and far where they were when its pictures are cut finer. What stands before the patches ([CLS]) is not
    turned. Sines and cosines are looked up, in float32 whatever the
    model's type: computed anew in every block they took 2 of the 18 ms of a small ViT's update (docs/LOG.md).
    """

    def __init__(
        self, rows: int, columns: int, width: int, base: float, *, prefix: int = 0, span: float | None = None
    ) -> None:
        super().__init__()
        self.grid, self.width, self.base, self.prefix = (rows, columns), width, base, prefix
        self.steps = (1, 1) if span is None else (span / rows, span / columns)
        self.register_buffer("table", self._made(torch.device("cpu")), persistent=False)

    def _made(self, device: torch.device) -> Tensor:
        """(positions, 2, width); the first patch has angle 0, and so has what stands before it."""
        (rows, columns), prefix = self.grid, self.prefix
        patches = torch.arange(-prefix, rows * columns, device=device).clamp(min=0)
        return ops.turns(ops.grid_angles(patches, columns, self.width, base=self.base, steps=self.steps))

    def reset_buffers(self) -> None:
        """Compute the table again: a model built on the meta device has it only then."""
        self.table = self._made(self.table.device)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """A model that moves or changes its type takes the table along, and its type stays."""
        super()._apply(fn, recurse)
        self.reset_buffers()
        return self

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """x (B,H,L,d); positions (B,L), or 0..L-1 when not given."""
        table: Tensor = self.table  # pyright: ignore[reportAssignmentType]
        return ops.turned(x, table[: x.shape[-2]] if positions is None else table[positions][:, None])
