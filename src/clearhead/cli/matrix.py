"""A tensor as a person reads it: one matrix of it, cut to the screen, three digits, rows named by tokens."""

import fnmatch
from itertools import chain
from typing import Any

from torch import Tensor

from ..models import Model
from ..trace import SITES, VARIANTS

ROWS = 8
GAP = "  "


def meaning_of(model: Model, site: str) -> str:
    """The words for a site of the model's own catalogue, or of another that knows a part it has besides."""
    plain, own = site.partition("#")[0], (SITES | VARIANTS)[model.catalogue]
    sites = chain(own, *VARIANTS.values())
    return next((known.meaning for known in sites if fnmatch.fnmatchcase(plain, known.name)), "")


def drawn(value: Tensor, tokens: list[str] | None, width: int) -> list[str]:
    """The first of a batch and of its heads, in lines of at most `width` characters; what is not shown is said last."""
    matrix, which = _first_matrix(value)
    rows, columns = matrix.shape
    names = [_row_name(number, rows, tokens) for number in range(min(rows, ROWS))]
    cells = [[_digits(x) for x in row[:width].tolist()] for row in matrix[:ROWS]]
    label = max(map(len, names), default=0)
    sizes = _columns_that_fit([max(map(len, column)) for column in zip(*cells, strict=True)], width - label)
    lines = [
        GAP.join([name.ljust(label), *(cell.rjust(size) for cell, size in zip(row, sizes, strict=False))])
        for name, row in zip(names, cells, strict=True)
    ]
    hidden = [f"{rows - ROWS} more rows"] * (rows > ROWS) + [f"{columns - len(sizes)} more columns"] * (
        columns > len(sizes)
    )
    said = ", ".join([which] * bool(which) + hidden)
    return [*lines, f"({said})"] if said else lines


def _columns_that_fit(sizes: list[int], room: int) -> list[int]:
    fitting: list[int] = []
    for size in sizes:
        room -= size + len(GAP)
        if room < 0:
            break
        fitting.append(size)
    return fitting


def _first_matrix(value: Tensor) -> tuple[Tensor, str]:
    """(B,H,L,M) -> its first (L,M). A batch of one row is that row; vectors are lain down."""
    if value.ndim <= 2:
        return value.reshape(-1, value.shape[-1]), ""
    which = f"the first of {value.shape[1]}" if value.ndim == 4 and value.shape[1] > 1 else ""
    while value.ndim > 2:
        value = value[0]
    return value, which


def _row_name(number: int, rows: int, tokens: list[str] | None) -> str:
    return tokens[number] if tokens is not None and len(tokens) == rows else str(number)


def _digits(x: float | int) -> str:
    return str(x) if isinstance(x, int) else f"{x:.3g}" if abs(x) < 1000 else f"{x:.0f}"


def as_json_values(value: Tensor) -> Any:
    """Nested lists; JSON has no infinity, so -inf is the text "-inf"."""
    return _finite(value.tolist())


def _finite(values: Any) -> Any:
    if isinstance(values, list):
        return [_finite(v) for v in values]
    return str(values) if values in (float("inf"), float("-inf")) or values != values else values
