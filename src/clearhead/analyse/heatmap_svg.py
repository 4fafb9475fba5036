"""A heat map as SVG: one drawing for light and dark pages, a cell's exact value when pointed at, no script."""

import base64
import zlib
from html import escape

from .heatmap import DARK, LIGHT, MARGIN, NUMBERED, HeatMap, Theme, clipped, hex_of, ink_upon, three_digits

LEVELS = 32
CELLS = 64  # up to so many rows and columns each cell is an element; beyond, they are pixels of a picture


def svg(one: HeatMap) -> str:
    """The whole drawing. Its classes begin with `ch-`, so that it leaves a page's own alone."""
    width, height = one.size
    cells = _cells(one) if max(one.values.shape) <= CELLS else _pixels(one)
    title = f'<text class="ch-ink" x="{MARGIN}" y="{MARGIN + 8}">{escape(one.title)}</text>'
    body = title + _labels(one) + cells + _legend(one)
    hatch = f"ch-hatch-{zlib.crc32(body.encode()):08x}"  # one page may hold several drawings
    told = escape(f"{one.title}: {len(one.rows)} rows, {len(one.columns)} columns", quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'class="ch-figure" role="img" aria-label="{told}"><style>{_STYLE}</style><defs><pattern id="{hatch}" '
        f'width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="ch-hatch" '
        f'd="M0 0V5"/></pattern></defs><rect class="ch-page" width="{width}" height="{height}"/>'
        f"{body.replace('HATCH', hatch)}</svg>\n"
    )


def _rules(theme: Theme) -> str:
    colours = [theme.at(level / LEVELS) for level in range(LEVELS + 1)]
    levels = "".join(
        f".ch-q{level}{{fill:{hex_of(one)}}}.ch-t{level}{{fill:{ink_upon(one)}}}" for level, one in enumerate(colours)
    )
    return (
        f".ch-page{{fill:{hex_of(theme.page)}}}.ch-ink{{fill:{hex_of(theme.ink)}}}.ch-soft{{fill:{hex_of(theme.soft)}}}"
        f".ch-hatch{{stroke:{hex_of(theme.hatch)};stroke-width:3}}{levels}"
    )


_STYLE = (
    ".ch-figure{max-width:100%;height:auto}.ch-figure text{font:11px Inter,system-ui,'Noto Sans',sans-serif;"
    "font-variant-numeric:tabular-nums}.ch-figure .ch-end{text-anchor:end}.ch-figure .ch-mid{text-anchor:middle}"
    f".ch-dark{{display:none}}{_rules(LIGHT)}@media(prefers-color-scheme:dark)"
    f"{{.ch-dark{{display:inline}}.ch-light{{display:none}}{_rules(DARK)}}}"
)


def _labels(one: HeatMap) -> str:
    parts, cell = [], one.cell
    for row in one.labelled(len(one.rows)):
        y = one.top + (row + 0.5) * cell + 4
        name = escape(clipped(one.rows[row]))
        parts.append(f'<text class="ch-soft ch-end" x="{one.left - 6}" y="{y:g}">{name}</text>')
    for column in one.labelled(len(one.columns)):
        x, y = one.left + (column + 0.5) * cell + 4, one.top - 6
        name = escape(clipped(one.columns[column]))
        parts.append(f'<text class="ch-soft" x="{x:g}" y="{y:g}" transform="rotate(-90 {x:g} {y:g})">{name}</text>')
    return "".join(parts)


def _cells(one: HeatMap) -> str:
    places = ((row, column) for row in range(len(one.rows)) for column in range(len(one.columns)))
    hidden = one.hidden.tolist()
    return "".join(_cell(one, row, column, hidden[row][column]) for row, column in places)


def _cell(one: HeatMap, row: int, column: int, hidden: bool) -> str:
    cell, x, y = one.cell, one.left + column * one.cell, one.top + row * one.cell
    where = escape(f"{one.rows[row]} → {one.columns[column]}: ")
    box = f'x="{x}" y="{y}" width="{cell - 1}" height="{cell - 1}"'
    if hidden:
        return f'<rect {box} fill="url(#HATCH)"><title>{where}masked</title></rect>'
    value, level = one.values[row, column].item(), round(one.shares[row, column].item() * LEVELS)
    drawn = f'<rect class="ch-q{level}" {box}><title>{where}{value:.9g}</title></rect>'
    if cell < NUMBERED:
        return drawn
    middle = f'x="{x + cell / 2 - 0.5:g}" y="{y + cell / 2 + 4:g}"'
    return f'{drawn}<text class="ch-mid ch-t{level}" {middle} pointer-events="none">{value:.2f}</text>'


def _pixels(one: HeatMap) -> str:
    """A large matrix as two pictures, of which the page's theme shows one."""
    from .heatmap_png import cells_png

    wide, high = one.cell * len(one.columns), one.cell * len(one.rows)
    return "".join(
        f'<image class="ch-{name}" x="{one.left}" y="{one.top}" width="{wide}" height="{high}" '
        f'href="data:image/png;base64,{base64.b64encode(cells_png(one, theme)).decode()}"/>'
        for name, theme in (("light", LIGHT), ("dark", DARK))
    )


def _legend(one: HeatMap) -> str:
    y, x, step = one.size[1] - 16, MARGIN + 12, 3
    bar = "".join(
        f'<rect class="ch-q{level}" x="{x + level * step}" y="{y - 8}" width="{step + 0.3}" height="9"/>'
        for level in range(LEVELS + 1)
    )
    end = x + (LEVELS + 1) * step + 6
    told = f"{three_digits(one.largest)} · smallest {three_digits(one.smallest)} · scale of this matrix"
    told += " · hatched: masked" if bool(one.hidden.any()) else ""
    zero = f'<text class="ch-soft" x="{MARGIN}" y="{y}">0</text>'
    return f'{zero}{bar}<text class="ch-soft" x="{end}" y="{y}">{told}</text>'
