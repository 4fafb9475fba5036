"""At the end of a command: mistaken pictures and an attention map, drawn in the terminal.

With colours two pixels share a character (the upper half block in one colour upon another); without colours, or where
the terminal knows no such character, every pixel is two characters from light to dark.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text
from torch import Tensor

from ..analyse import AttentionRow
from ..analyse.heatmap import LIGHT
from ..errors import shown
from .sample_kinds import (
    LanguageSample,
    MaskedSample,
    PictureSample,
    QuestionSample,
    Sample,
    TextSample,
    TranslationSample,
)
from .scale import label, number, sequential

HALF = "▀"
RAMP = " .:-=+*#%@"
LARGEST = 32  # pixels of an edge
LEAST = 16  # smaller pictures are enlarged, in colour
GAP = 3
MOST_TOKENS = 24
LONGEST = 12  # characters of a token

Colour = tuple[int, int, int]


def show_samples(samples: Sequence[Sample], console: Console | None = None, mistakes: int = 8) -> None:
    """What can be drawn of these samples: of pictures the mistakes and one attention map, of texts one map."""
    console = console or Console()
    pictures = [sample for sample in samples if isinstance(sample, PictureSample)]
    if pictures:
        wrong = [sample for sample in pictures if not sample.right]
        if wrong:
            console.print(Text("mistakes, the surest first:"))
            show_pictures(wrong[:mistakes], console)
        else:
            console.print(Text("no mistakes among the samples"))
        show_picture_attention(pictures[0], console)
        return
    for sample in samples[:1]:
        _show_text(sample, console)


def show_pictures(samples: Sequence[PictureSample], console: Console) -> None:
    """Pictures side by side, each with what it is and what it was taken for, as many to a line as fit."""
    tiles = [(picture_lines(sample.pixels, console), _captions(sample)) for sample in samples]
    if not tiles:
        return
    wide = max(max(line.cell_len for line in drawn) for drawn, _ in tiles)
    wide = max(wide, *(len(line) for _, said in tiles for line in said))
    fit = max(1, (console.width + GAP) // (wide + GAP))
    for start in range(0, len(tiles), fit):
        row = [drawn + [Text(line) for line in said] for drawn, said in tiles[start : start + fit]]
        _print_side_by_side(row, wide, console)


def _captions(sample: PictureSample) -> list[str]:
    said = f"{shown(sample.predicted, 20)} {sample.probability:.0%}"
    return [said] if sample.right else [said, f"truly {shown(sample.truth, 20)}"]


def show_picture_attention(sample: PictureSample, console: Console) -> None:
    """A picture beside where the model looked at it."""
    layers, heads = sample.attention.shape[:2]
    patches = sample.attention[-1].mean(0)
    scale = _scale(float(patches.max()), console)
    console.print(Text(f"attention over the first picture (layer {layers}, mean of {heads} heads), a patch {scale}:"))
    drawn = [picture_lines(sample.pixels, console), picture_lines(_as_colours(sample.over), console)]
    if not _in_colour(console):
        drawn[1] = picture_lines(_as_grey(sample.over), console)
    wide = max(line.cell_len for lines in drawn for line in lines)
    _print_side_by_side(drawn, wide, console)


def show_matrix(weights: Tensor, rows: Sequence[str], columns: Sequence[str], console: Console) -> None:
    """weights (rows, columns) as cells, two characters each, rows named at the left, columns below."""
    rows, columns = rows[:MOST_TOKENS], columns[:MOST_TOKENS]
    weights = weights[:MOST_TOKENS, :MOST_TOKENS]
    top = float(weights.max())
    names = [_name(row) for row in rows]
    side = max(map(len, names))
    for name, values in zip(names, weights.tolist(), strict=True):
        line = Text(f"{name:>{side}} ")
        for value in values:
            share = value / top if top > 0 else 0.0
            if _in_colour(console):
                line.append("  ", Style(bgcolor=_hex(sequential(share))))
            else:
                line.append(RAMP[_step(share)] * 2)
        if not _in_colour(console):
            line.rstrip()
        console.print(line, no_wrap=True, crop=True)
    heads = [_name(column) for column in columns]
    short = max(map(cell_len, heads)) <= 1
    letters = heads if short else [chr(ord("a") + place) for place in range(len(columns))]
    console.print(Text(" " * (side + 1) + " ".join(letters)), no_wrap=True, crop=True)
    key = [] if short else [f"{letter} {head}" for letter, head in zip(letters, heads, strict=True)]
    console.print(Text("  ".join([*key, f"({_scale(top, console)})"])))


def _show_text(sample: Sample, console: Console) -> None:
    if isinstance(sample, TranslationSample):
        console.print(Text(f"{shown(sample.source)}\n-> {shown(sample.output)}"))
        a = sample.alignment
        show_matrix(a.weights, a.target, a.source, console)
    elif isinstance(sample, LanguageSample):
        console.print(Text(f"{shown(sample.prompt)} -> {shown(sample.continuation)}"))
        m = sample.map
        show_matrix(m.mean[-MOST_TOKENS:, -MOST_TOKENS:], m.rows[-MOST_TOKENS:], m.columns[-MOST_TOKENS:], console)
    elif isinstance(sample, MaskedSample):
        console.print(Text(f"{shown(sample.text)}\n-> {shown(sample.filled.text)}"))
        for look in sample.looks[:1]:
            show_row(look, console)
    elif isinstance(sample, TextSample):
        text = sample.text if isinstance(sample.text, str) else " | ".join(sample.text)
        console.print(Text(f"{shown(text)}\n-> {shown(sample.predicted)}, truly {shown(sample.truth)}"))
        show_row(sample.look, console)
    elif isinstance(sample, QuestionSample):
        console.print(Text(f"{shown(sample.question)}\n-> {shown(sample.answer.text)}"))
        if sample.look is not None:
            show_row(sample.look, console)


def show_row(look: AttentionRow, console: Console, most: int = 8) -> None:
    """The tokens that one token looked at most, with bars."""
    best = look.mean.topk(min(most, len(look.columns)))
    top = float(best.values[0])
    names = [_name(look.columns[place]) for place in best.indices.tolist()]
    console.print(Text(f"{_name(look.of)} looked at (mean of {len(look.weights)} heads):"))
    block = "█" if _blocks(console) else "#"
    for name, value in zip(names, best.values.tolist(), strict=True):
        bar = block * round(24 * value / top) if top > 0 else ""
        console.print(Text(f"  {name:>{max(map(len, names))}} {value:.3f} {bar}"))


def picture_lines(pixels: Tensor, console: Console) -> list[Text]:
    """uint8 (C,H,W) as lines of text, small ones enlarged and large ones reduced."""
    pixels = _resized(pixels, LEAST if _in_colour(console) else 1)
    if not _in_colour(console):
        grey = pixels.float().mean(0) / 255
        return [Text("".join(RAMP[_step(value)] * 2 for value in row)) for row in grey.tolist()]
    colours = pixels.expand(3, -1, -1) if len(pixels) == 1 else pixels
    if colours.shape[1] % 2:
        colours = torch.cat([colours, torch.zeros_like(colours[:, :1])], 1)
    upper, lower = (colours[:, start::2].permute(1, 2, 0).tolist() for start in (0, 1))
    lines = []
    for above, below in zip(upper, lower, strict=True):
        line = Text()
        for high, low in zip(above, below, strict=True):
            line.append(HALF, Style(color=_hex(high), bgcolor=_hex(low)))
        lines.append(line)
    return lines


def _resized(pixels: Tensor, least: int) -> Tensor:
    height, width = pixels.shape[1:]
    edge = max(height, width)
    if edge > LARGEST:
        size = max(1, round(height * LARGEST / edge)), max(1, round(width * LARGEST / edge))
        return F.interpolate(pixels[None].float(), size=size, mode="area")[0].round().byte()
    times = max(1, least // edge)
    return pixels.repeat_interleave(times, 1).repeat_interleave(times, 2)


def _as_colours(over: Tensor) -> Tensor:
    """(H,W) on the sequential scale, as pixels."""
    return LIGHT.colours(over / over.max().clamp(min=1e-12)).permute(2, 0, 1)


def _as_grey(over: Tensor) -> Tensor:
    return (over / over.max().clamp(min=1e-12) * 255).round().byte()[None]


def _print_side_by_side(columns: Sequence[Sequence[Text]], wide: int, console: Console) -> None:
    for place in range(max(map(len, columns))):
        line = Text()
        for column in columns:
            part = column[place].copy() if place < len(column) else Text()
            part.pad_right(wide + GAP - part.cell_len)
            line.append_text(part)
        line.rstrip()
        console.print(line, no_wrap=True, crop=True)
    console.print()


def _scale(top: float, console: Console) -> str:
    low, high = ("pale", "dark") if _in_colour(console) else ("blank", "dense")
    return f"from 0, {low}, to {number(top)}, {high}"


def _in_colour(console: Console) -> bool:
    return console.color_system is not None and not console.no_color and _blocks(console)


def _blocks(console: Console) -> bool:
    return console.encoding.lower().replace("-", "").startswith("utf")


def _step(share: float) -> int:
    return round(min(max(share, 0.0), 1.0) * (len(RAMP) - 1))


def _hex(colour: Sequence[int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _name(token: str) -> str:
    return shown(label(token, LONGEST))
