"""Pictures of numbers as SVG: curves, matrices, photographs with a map over them. Drawn by us, no script, no network.

Colours are classes, so that one drawing serves light and dark: `STYLE` and `DEFS` go once into the page. Probabilities
lie on one sequential scale that gets steadily darker (in dark steadily lighter): it reads without seeing hues.
"""

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import torch
import torch.nn.functional as F
from torch import Tensor

LEVELS = 24
LIGHT = ((247, 246, 243), (150, 140, 220), (52, 22, 92))
DARK = ((30, 32, 38), (92, 88, 190), (236, 226, 160))
OVER = (224, 104, 18)  # what lies over a picture
LARGEST_PICTURE = 160  # pixels of an edge; larger ones are reduced
MOST_POINTS = 300
SMOOTHED_FROM = 60
UPRIGHT = 2  # letters of the longest name that is not written leaning
NUMBERED = 30  # pixels of a cell that has its number written in

WIDTH, HEIGHT = 560, 250
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 14, 38


def _mixed(scale: Sequence[tuple[int, int, int]], share: float) -> tuple[int, int, int]:
    low, high, part = (scale[0], scale[1], share * 2) if share < 0.5 else (scale[1], scale[2], share * 2 - 1)
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(low, high, strict=True))
    return red, green, blue


def sequential(share: float) -> tuple[int, int, int]:
    """The light scale's colour from 0 to 1, for what draws pixels itself."""
    return _mixed(LIGHT, min(max(share, 0.0), 1.0))


def _levels(scale: Sequence[tuple[int, int, int]]) -> str:
    rules = []
    for level in range(LEVELS + 1):
        red, green, blue = _mixed(scale, level / LEVELS)
        ink = "#111" if 0.3 * red + 0.59 * green + 0.11 * blue > 120 else "#fff"
        rules.append(f".q{level}{{--c:#{red:02x}{green:02x}{blue:02x};--t:{ink}}}")
    return "".join(rules)


STYLE = (
    ":root{--s1:#2f5bd7;--s2:#c4570c;--s3:#5a5d63;--mask:#dcdad4}"
    f"{_levels(LIGHT)}@media(prefers-color-scheme:dark){{:root{{--s1:#8aa8ff;--s2:#ff9c48;--s3:#a3a6ad;--mask:#3a3e45}}"
    f"{_levels(DARK)}}}"
    "svg{display:block;max-width:100%;height:auto}svg text{font-size:11px;fill:var(--soft)}"
    "svg .c{fill:var(--c)}svg .v{fill:var(--t);font-size:10px;text-anchor:middle}svg .hatched{fill:url(#hatch)}"
    "svg .axis{stroke:var(--line)}svg .grid{stroke:var(--line);stroke-dasharray:2 3}"
    "svg .end{text-anchor:end}svg .mid{text-anchor:middle}svg .ink{fill:var(--ink)}"
    "svg .curve{fill:none;stroke-width:1.8;stroke-linejoin:round}svg .faint{stroke-width:1;opacity:.35}"
    ".s1{stroke:var(--s1)}.s2{stroke:var(--s2);stroke-dasharray:6 3}.s3{stroke:var(--s3);stroke-dasharray:2 3}"
    "circle.s1,circle.s2,circle.s3{fill:var(--panel);stroke-width:1.5;stroke-dasharray:none}"
    "span.c{background:var(--c);color:var(--t)}"
)
DEFS = (
    '<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>'
    '<pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path d="M0 0V5" style="stroke:var(--mask)" stroke-width="3"/></pattern></defs></svg>'
)


def number(value: float, digits: int = 3) -> str:
    """Three significant digits, thousands grouped, no exponent where a person needs none."""
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    if float(value).is_integer() and abs(value) >= 10 ** (digits - 1):
        return f"{int(value):,}" if abs(value) < 1e15 else f"{value:.{digits - 1}e}"
    if not 1e-4 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e{int(exponent)}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def level(value: float, largest: float) -> int:
    """The class of a value on the scale from 0 to `largest`."""
    return round(min(max(value / largest, 0.0), 1.0) * LEVELS) if largest > 0 else 0


def scale_bar(largest: float, note: str) -> str:
    """The sequential scale with its ends."""
    steps = "".join(f'<rect x="{n * 4}" width="4.3" height="8" class="c q{n}"/>' for n in range(LEVELS + 1))
    return _bar(f'<svg viewBox="0 0 100 8" width="100" height="8" aria-hidden="true">{steps}</svg>', largest, note)


def overlay_bar(largest: float | None, note: str) -> str:
    """The scale of what lies over pictures: from nothing to its colour."""
    red, green, blue = OVER
    steps = "".join(
        f'<rect x="{n * 4}" width="4.3" height="8" fill="rgb({red},{green},{blue})" fill-opacity="{n / 24:.2f}"/>'
        for n in range(25)
    )
    return _bar(f'<svg viewBox="0 0 100 8" width="100" height="8" aria-hidden="true">{steps}</svg>', largest, note)


def _bar(svg: str, largest: float | None, note: str) -> str:
    end = "largest" if largest is None else number(largest)
    return f'<p class="scale"><span>0</span>{svg}<span>{end}</span> <span>{escape(note)}</span></p>'


# ------------------------------------------------------------------------------------------------ curves


@dataclass(frozen=True)
class Curve:
    """Points (step, value) in order.

    style   1, 2 or 3: colour and dashes
    marked  each point has a dot that tells its value when pointed at
    noisy   where there are many points, they are drawn faintly and their running mean upon them
    """

    name: str
    points: Sequence[tuple[float, float]]
    style: int = 1
    marked: bool = False
    noisy: bool = False

    @property
    def smoothed(self) -> bool:
        return self.noisy and len(self.points) >= SMOOTHED_FROM


def line_chart(curves: Sequence[Curve], label: str, *, log: bool | None = None) -> str:
    """Curves over steps with their legend; logarithmic where a positive figure spans more than a decade.

    A long curve is thinned to means of neighbouring points; that, and a running mean, is said in the legend.
    """
    curves = [curve for curve in curves if curve.points]
    values = [y for curve in curves for _, y in curve.points]
    if not values:
        return f'<p class="none">{escape(label)}: no figures</p>'
    if log is None:
        log = min(values) > 0 and max(values) / min(values) > 10
    thin = [_thinned(curve.points) for curve in curves]
    low, high, ticks = _log_axis(min(values), max(values)) if log else _linear_axis(min(values), max(values))
    first, last, steps = _step_axis([x for curve in curves for x, _ in curve.points])
    place = _Place(first, last, low, high, log)
    svg = _frame(place, ticks, steps)
    svg += "".join(_curve(place, curve, points) for curve, (points, _) in zip(curves, thin, strict=True))
    legend = "".join(_legend(curve, each) for curve, (_, each) in zip(curves, thin, strict=True))
    legend += "<span>logarithmic</span>" if log else ""
    told = escape(f"{label} over steps", quote=True)
    return (
        f'<figure class="chart"><figcaption><b>{escape(label)}</b>{legend}</figcaption><svg viewBox="0 0 {WIDTH} '
        f'{HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{told}">{svg}</svg></figure>'
    )


@dataclass(frozen=True)
class _Place:
    first: float
    last: float
    low: float
    high: float
    log: bool

    def x(self, step: float) -> float:
        return LEFT + (step - self.first) / (self.last - self.first) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)


def _frame(place: _Place, ticks: Sequence[float], steps: Sequence[float]) -> str:
    floor, parts = HEIGHT - BOTTOM, []
    for tick in ticks:
        y = place.y(tick)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="end" x="{LEFT - 7}" y="{y + 4:.1f}">{number(tick)}</text>')
    for step in steps:
        parts.append(f'<text class="mid" x="{place.x(step):.1f}" y="{floor + 16}">{number(step, 6)}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {floor}H{WIDTH - RIGHT}"/>')
    parts.append(f'<text class="mid" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}">step</text>')
    return "".join(parts)


def _curve(place: _Place, curve: Curve, points: Sequence[tuple[float, float]]) -> str:
    colour = f"s{curve.style}"

    def path(drawn: Sequence[tuple[float, float]], more: str = "") -> str:
        d = "L".join(f"{place.x(x):.1f} {place.y(y):.1f}" for x, y in drawn)
        return f'<path class="curve {colour}{more}" d="M{d}"/>'

    drawn = path(points, " faint") + path(_smoothed(points)) if curve.smoothed else path(points)
    if curve.marked or len(points) == 1:
        drawn += "".join(
            f'<circle class="{colour}" cx="{place.x(x):.1f}" cy="{place.y(y):.1f}" r="{3 if len(points) < 60 else 2}">'
            f"<title>{escape(curve.name)} at step {number(x, 9)}: {number(y, 6)}</title></circle>"
            for x, y in points
        )
    return drawn


def _legend(curve: Curve, each: int) -> str:
    notes = [f"a point is the mean of {each}"] if each > 1 else []
    notes += ["bold: running mean"] if curve.smoothed else []
    told = f" ({', '.join(notes)})" if notes else ""
    swatch = f'<svg width="22" height="8" aria-hidden="true"><path class="curve s{curve.style}" d="M0 4H22"/></svg>'
    return f"<span>{swatch}{escape(curve.name)}{told}</span>"


def _thinned(points: Sequence[tuple[float, float]]) -> tuple[list[tuple[float, float]], int]:
    """Means of so many neighbours that few enough points are left, and of how many."""
    each = -(-len(points) // MOST_POINTS)
    groups = (points[start : start + each] for start in range(0, len(points), each))
    return [(sum(x for x, _ in g) / len(g), sum(y for _, y in g) / len(g)) for g in groups], each


def _smoothed(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    reach = max(1, len(points) // 40)
    means = []
    for place, (x, _) in enumerate(points):
        near = min(reach, place, len(points) - 1 - place)  # as many on both sides, or the ends would lean
        some = points[place - near : place + near + 1]
        means.append((x, sum(y for _, y in some) / len(some)))
    return means


def _step_axis(steps: Sequence[float]) -> tuple[float, float, list[float]]:
    first, last = min(0.0, *steps), max(steps)
    last = last if last > first else first + 1
    _, _, ticks = _linear_axis(first, last, 6)
    return first, last, [tick for tick in ticks if first <= tick <= last]


def _linear_axis(low: float, high: float, count: int = 5) -> tuple[float, float, list[float]]:
    if high == low:
        low, high = low - (abs(low) or 1) * 0.1, high + (abs(high) or 1) * 0.1
    rough = (high - low) / count
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return first * step, last * step, [round(n * step, 12) for n in range(first, last + 1)]


def _log_axis(low: float, high: float) -> tuple[float, float, list[float]]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    nice = (1, 2, 5) if len(decades) <= 4 else (1,)
    ticks = [n * 10.0**power for power in decades for n in nice]
    below = [tick for tick in ticks if tick <= low]
    above = [tick for tick in ticks if tick >= high]
    bottom, top = max(below, default=low), min(above, default=high)
    return bottom, top, [tick for tick in ticks if bottom <= tick <= top]


# ------------------------------------------------------------------------------------------------ matrices


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


def label(token: str, longest: int = 14) -> str:
    """A token as a label: spaces and ends of lines made visible, the rest of a long one left out."""
    seen = token.replace("\n", "⏎").replace("\t", "⇥").replace(" ", "␣") or "∅"
    return seen if len(seen) <= longest else f"{seen[: longest - 1]}…"


# ------------------------------------------------------------------------------------------------ pictures


@dataclass(frozen=True)
class Tile:
    """A picture for a grid: its SVG and what is written under it; `good` colours the mark before that."""

    svg: str
    lines: Sequence[str]
    good: bool | None = None


def picture(pixels: Tensor, told: str, over: Tensor | None = None, edge: int = 112) -> str:
    """pixels uint8 (C,H,W), grey or in colour; `over` (H,W) lies upon it, from nothing at 0 to solid at its largest.

    Under a map the picture is grey and calmer, so that what is seen of colour is the map.
    """
    height, width = pixels.shape[1:]
    base = pixels.float()
    if over is not None:
        weights = torch.tensor([0.3, 0.59, 0.11])[:, None, None] if len(base) == 3 else torch.ones(1, 1, 1)
        base = (base * weights).sum(0, keepdim=True) * 0.5 + 24
    images = _image(base, False)
    if over is not None:
        alpha = over / over.max().clamp(min=1e-12) * 215
        colour = torch.tensor(OVER, dtype=torch.float32)[:, None, None].expand(3, height, width)
        images += _image(torch.cat([colour, alpha[None].float()]), True)
    return (
        f'<svg viewBox="0 0 1 {height / width:.4f}" width="{edge}" height="{round(edge * height / width)}" '
        f'role="img" aria-label="{escape(told, quote=True)}"><title>{escape(told)}</title>{images}</svg>'
    )


def _image(channels: Tensor, sharp: bool) -> str:
    height, width = channels.shape[1:]
    factor = max(height, width) / LARGEST_PICTURE
    if factor > 1:
        size = max(1, round(height / factor)), max(1, round(width / factor))
        channels = F.interpolate(channels[None], size=size, mode="area")[0]
    crisp = ' style="image-rendering:pixelated"' if sharp or max(height, width) < 64 else ""
    data = base64.b64encode(png(channels.round().clamp(0, 255).byte())).decode()
    return (
        f'<image href="data:image/png;base64,{data}" width="1" height="{height / width:.4f}" '
        f'preserveAspectRatio="none"{crisp}/>'
    )


def png(pixels: Tensor) -> bytes:
    """uint8 (C,H,W) of 1 (grey), 3 (colour) or 4 channels (with transparency) as a PNG file."""
    channels, height, width = pixels.shape
    kind = {1: 0, 3: 2, 4: 6}[channels]
    rows = pixels.permute(1, 2, 0).reshape(height, -1)
    raw = b"".join(b"\0" + bytes(row.tolist()) for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def picture_grid(tiles: Sequence[Tile]) -> str:
    """Pictures side by side, as many to a line as fit."""
    return f'<div class="tiles">{"".join(map(_tile, tiles))}</div>'


def _tile(tile: Tile) -> str:
    mark = {None: "", True: '<i class="good">✓</i> ', False: '<i class="bad">✗</i> '}[tile.good]
    lines = "<br>".join(map(escape, tile.lines))
    return f"<figure>{tile.svg}<figcaption>{mark}{lines}</figcaption></figure>"
