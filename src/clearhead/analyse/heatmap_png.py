"""A heat map as PNG, by Pillow."""

import io
from typing import Any

from ..errors import ClearheadError
from .heatmap import DARK, LIGHT, MARGIN, Colour, HeatMap, Theme, clipped, three_digits

NEAREST = 0  # Pillow's number for enlarging by repetition
SCALE = 2  # pixels of the picture for each of the drawing


def _pillow() -> Any:
    try:
        import PIL.Image
        import PIL.ImageDraw
        import PIL.ImageFont
    except ImportError:
        raise ClearheadError("this figure needs Pillow, which is not installed: pip install Pillow") from None
    return PIL


def cells_png(one: HeatMap, theme: Theme) -> bytes:
    """The cells alone, as large as in the drawing."""
    return _bytes(_cells(one, theme, one.cell))


def png(one: HeatMap, dark: bool = False) -> bytes:
    """The whole figure: cells, names and legend. A name that the built-in letters lack is given as its place."""
    pillow, theme = _pillow(), DARK if dark else LIGHT
    width, height = (SCALE * side for side in one.size)
    image = pillow.Image.new("RGB", (width, height), theme.page)
    image.paste(_cells(one, theme, SCALE * one.cell), (SCALE * one.left, SCALE * one.top))
    draw, font = pillow.ImageDraw.Draw(image), pillow.ImageFont.load_default(11 * SCALE)
    draw.text(
        (SCALE * MARGIN, SCALE * MARGIN),
        _latin(one.title, one.title.encode("ascii", "replace").decode()),
        theme.ink,
        font,
    )
    for row in one.labelled(len(one.rows)):
        at = SCALE * (one.left - 6), SCALE * (one.top + (row + 0.5) * one.cell)
        draw.text(at, _latin(clipped(one.rows[row]), str(row)), theme.soft, font, anchor="rm")
    for column in one.labelled(len(one.columns)):
        _upright(image, one, column, theme.soft, font)
    _legend(draw, one, theme, font)
    return _bytes(image)


def _cells(one: HeatMap, theme: Theme, cell: int) -> Any:
    """Colours by cell, enlarged; masked cells hatched."""
    pillow = _pillow()
    high, wide = one.values.shape
    image = pillow.Image.fromarray(theme.colours(one.shares).numpy()).resize((wide * cell, high * cell), NEAREST)
    if one.hidden.any():
        hidden = pillow.Image.fromarray(one.hidden.byte().mul(255).numpy()).resize(image.size, NEAREST)
        image.paste(_stripes(image.size, theme.page, theme.hatch), (0, 0), hidden)
    return image


def _stripes(size: tuple[int, int], page: Colour, stripe: Colour) -> Any:
    pillow = _pillow()
    image = pillow.Image.new("RGB", size, page)
    draw = pillow.ImageDraw.Draw(image)
    for start in range(-size[1], size[0], 8):
        draw.line((start, size[1], start + size[1], 0), stripe, 3)
    return image


def _upright(image: Any, one: HeatMap, column: int, colour: Colour, font: Any) -> None:
    pillow, text = _pillow(), _latin(clipped(one.columns[column]), str(column))
    wide, high = int(font.getlength(text)) + 2, 14 * SCALE
    label = pillow.Image.new("L", (wide, high))
    pillow.ImageDraw.Draw(label).text((0, high // 2), text, 255, font, anchor="lm")
    turned = label.rotate(90, expand=True)
    middle = SCALE * (one.left + (column + 0.5) * one.cell)
    image.paste(colour, (int(middle - high / 2), SCALE * (one.top - 6) - wide), turned)


def _legend(draw: Any, one: HeatMap, theme: Theme, font: Any) -> None:
    y, x, steps = SCALE * (one.size[1] - 20), SCALE * (MARGIN + 12), 100
    draw.text((SCALE * MARGIN, y), "0", theme.soft, font, anchor="lm")
    for step in range(steps):
        left = x + SCALE * step
        draw.rectangle((left, y - 8, left + SCALE, y + 8), theme.at(step / (steps - 1)))
    told = f"{three_digits(one.largest)}   smallest {three_digits(one.smallest)}, scale of this matrix"
    masked = ", hatched: masked" if bool(one.hidden.any()) else ""
    draw.text((x + SCALE * (steps + 6), y), told + masked, theme.soft, font, anchor="lm")


def _latin(text: str, instead: str) -> str:
    """The text, or something else where it has letters beyond Latin-1, which Pillow's own font can't draw."""
    text = text.replace("␣", " ").replace("…", "...").strip() or text
    return text if text.isascii() or all(ord(letter) < 256 for letter in text) else instead


def _bytes(image: Any) -> bytes:
    kept = io.BytesIO()
    image.save(kept, "PNG")
    return kept.getvalue()
