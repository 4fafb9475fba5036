"""Numbers and colours of the page's drawings: how a figure is written, and which colour a share has.

Colours are classes, so that one drawing serves light and dark: `STYLE` and `DEFS` go once into the page. Probabilities
lie on one sequential scale that gets steadily darker (in dark steadily lighter): it reads without seeing hues.
"""

import math
from html import escape

from ..analyse.heatmap import DARK, LIGHT, Colour, Theme, hex_of, ink_upon

LEVELS = 24
OVER = (224, 104, 18)  # what lies over a picture


def sequential(share: float) -> Colour:
    """The light scale's colour from 0 to 1, for what draws cells itself."""
    return LIGHT.at(share)


def _levels(theme: Theme) -> str:
    colours = [theme.at(level / LEVELS) for level in range(LEVELS + 1)]
    return "".join(f".q{n}{{--c:{hex_of(one)};--t:{ink_upon(one)}}}" for n, one in enumerate(colours))


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


def label(token: str, longest: int = 14) -> str:
    """A token as a label: spaces and ends of lines made visible, the rest of a long one left out."""
    seen = token.replace("\n", "⏎").replace("\t", "⇥").replace(" ", "␣") or "∅"
    return seen if len(seen) <= longest else f"{seen[: longest - 1]}…"
