"""Figures over the steps of a run as SVG: axes, curves, legend. Drawn by us, no script."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .scale import number

MOST_POINTS = 300
SMOOTHED_FROM = 60
WIDTH, HEIGHT = 560, 250
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 14, 38


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
