"""A matrix as SVG: coloured cells, names at both sides, and the scale. Drawn by us, no script."""

import math
from collections.abc import Sequence
from html import escape

from torch import Tensor

from .scale import label, level, number, scale_bar

UPRIGHT = 2  # letters of the longest name that is not written leaning
NUMBERED = 30  # pixels of a cell that has its number written in


def heat_map(
    values: Tensor,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    *,
    masked: Tensor | None = None,
    note: str = "scale of this matrix",
) -> str:
    """values (rows, columns) of 0 and above as coloured cells with names and their scale; masked cells are hatched.

    Small matrices have their numbers written in; pointing at a cell tells names and value.
    """
    count, width = values.shape
    top, size = float(values.max()), _cell_size(count, width)
    names, heads = ([label(name) for name in side] for side in (rows, columns))
    longest = max(map(len, heads))
    left, above = 12 + 6.6 * max(map(len, names)), 20 if longest <= UPRIGHT else 14 + 5.8 * longest
    gone = masked.tolist() if masked is not None else [[False] * width] * count
    parts = [_names(names, heads, size, left, above)]
    for i, row in enumerate(values.tolist()):
        for j, value in enumerate(row):
            told = f"{rows[i]} to {columns[j]}: {'masked' if gone[i][j] else number(value, 6)}"
            parts.append(_cell(left + j * size, above + i * size, size, value, top, gone[i][j], told))
    wide, high = left + width * size + 3.6 * len(heads[-1]) + 6, above + count * size + 2
    hatched = "; hatched: not allowed to look" if any(map(any, gone)) else ""
    return (
        f'<figure class="matrix"><figcaption><b>{escape(title)}</b></figcaption>'
        f'<svg viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" height="{high:.0f}" role="img" '
        f'aria-label="{escape(title, quote=True)}">{"".join(parts)}</svg>{scale_bar(top, note + hatched)}</figure>'
    )


def _cell_size(rows: int, columns: int) -> int:
    if columns <= 14 and rows <= 24:
        return NUMBERED
    return 20 if columns <= 22 else 14 if columns <= 30 else 11 if columns <= 60 else 6


def _names(rows: Sequence[str], columns: Sequence[str], size: int, left: float, above: float) -> str:
    """Names at the left and at the top, leaning unless they are short; as many as there is room for."""
    each, parts = math.ceil(11 / size), []
    upright = max(map(len, columns)) <= UPRIGHT
    for place, name in enumerate(rows):
        if place % each == 0:
            y = above + (place + 0.5) * size + 4
            parts.append(f'<text class="end ink" x="{left - 6:.0f}" y="{y:.0f}">{escape(name)}</text>')
    for place, name in enumerate(columns):
        if place % each == 0:
            x, y = left + (place + 0.5) * size, above - 5
            how = 'class="ink mid"' if upright else f'class="ink" transform="rotate(-60 {x:.0f} {y:.0f})"'
            parts.append(f'<text x="{x:.0f}" y="{y:.0f}" {how}>{escape(name)}</text>')
    return "".join(parts)


def _cell(x: float, y: float, size: int, value: float, top: float, gone: bool, told: str) -> str:
    gap = 1 if size > 8 else 0
    kind = "hatched" if gone else f"c q{level(value, top)}"
    box = (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{size - gap}" height="{size - gap}" class="{kind}">'
        f"<title>{escape(told)}</title></rect>"
    )
    if size < NUMBERED or gone:
        return box
    q = f"q{level(value, top)}"
    return f'{box}<text class="v {q}" x="{x + size / 2 - 0.5:.1f}" y="{y + size / 2 + 3:.1f}">{value:.2f}</text>'
