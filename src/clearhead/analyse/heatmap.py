"""A matrix of shares as a heat map: where its parts lie, how large they are, which colour a share has.

Colours go steadily from light to dark (in the dark theme from dark to light): they read without seeing hues.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..errors import ClearheadError

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Theme:
    """Colours of the page and of a matrix: `scale` from 0 over the middle to the largest share."""

    page: Colour
    ink: Colour
    soft: Colour
    hatch: Colour
    scale: tuple[Colour, Colour, Colour]

    def at(self, share: float) -> Colour:
        """The colour of a share from 0 to 1 of the largest."""
        red, green, blue = self.colours(torch.tensor(share)).tolist()
        return red, green, blue

    def colours(self, shares: Tensor) -> Tensor:
        """shares (...) -> (...,3), whole numbers up to 255."""
        low, middle, high = torch.tensor(self.scale, dtype=torch.float64)
        part = 2 * shares.double().clamp(0, 1)[..., None]
        return torch.where(part < 1, low + (middle - low) * part, middle + (high - middle) * (part - 1)).round().byte()


def hex_of(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def ink_upon(colour: Colour) -> str:
    """What is readable upon a colour."""
    red, green, blue = colour
    return "#111111" if 0.3 * red + 0.59 * green + 0.11 * blue > 120 else "#ffffff"


LIGHT = Theme(
    (251, 251, 250), (27, 28, 30), (98, 101, 107), (220, 218, 212), ((247, 246, 243), (150, 140, 220), (52, 22, 92))
)
DARK = Theme(
    (19, 20, 22), (233, 232, 228), (163, 166, 173), (58, 62, 69), ((30, 32, 38), (92, 88, 190), (236, 226, 160))
)

NUMBERED = 34  # pixels of a cell that has its number written in
LETTER = 6.6  # pixels that a letter of a label takes
LONGEST_LABEL = 16
MARGIN = 14
NARROWEST = 470  # what title and legend need
TITLE = 24
FOOT = 36


@dataclass(frozen=True)
class HeatMap:
    """values (L,M), 0 to 1, with the names of rows and columns; masked (L,M) cells have no value and are hatched."""

    title: str
    values: Tensor
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    masked: Tensor | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or tuple(self.values.shape) != (len(self.rows), len(self.columns)):
            raise ClearheadError(
                f"{len(self.rows)} rows and {len(self.columns)} columns are named, of {tuple(self.values.shape)}"
            )
        if not self.values.numel():
            raise ClearheadError("an empty matrix can't be drawn")

    @cached_property
    def hidden(self) -> Tensor:
        return torch.zeros(self.values.shape, dtype=torch.bool) if self.masked is None else self.masked

    @cached_property
    def smallest(self) -> float:
        return self._seen().min().item()

    @cached_property
    def largest(self) -> float:
        return self._seen().max().item()

    def _seen(self) -> Tensor:
        seen = self.values[~self.hidden]
        return seen if seen.numel() else torch.zeros(1)

    @cached_property
    def shares(self) -> Tensor:
        """(L,M) of the largest value."""
        return self.values.double() / self.largest if self.largest > 0 else torch.zeros_like(self.values)

    @property
    def cell(self) -> int:
        """Pixels of a cell's edge."""
        count = max(self.values.shape)
        return NUMBERED if count <= 16 else max(2, min(22, 720 // count))

    @property
    def left(self) -> int:
        return MARGIN + _room(self.rows)

    @property
    def top(self) -> int:
        """Labels of columns stand upright."""
        return MARGIN + TITLE + _room(self.columns)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, with the legend."""
        width = max(self.left + self.cell * len(self.columns) + MARGIN, NARROWEST)
        return width, self.top + self.cell * len(self.rows) + FOOT

    def labelled(self, count: int) -> range:
        """Which of so many rows or columns have their name written: as many as don't overlap."""
        return range(0, count, max(1, -(-13 // self.cell)))


def clipped(name: str) -> str:
    """A name as it stands at an axis: spaces made visible, long ones cut."""
    name = name.replace(" ", "␣").replace("\n", "↵").replace("\t", "⇥")
    return name if len(name) <= LONGEST_LABEL else name[: LONGEST_LABEL - 1] + "…"


def three_digits(value: float) -> str:
    """Three significant digits."""
    return f"{value:.3g}"


def _room(names: Sequence[str]) -> int:
    return int(LETTER * max(len(clipped(name)) for name in names)) + 10
