"""Figures for notebooks: `attention(trace).plot(layer, head)` shows itself, and saves itself as SVG or PNG."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ClearheadError
from ..trace import Trace
from .attention import AttentionMap, attention_maps
from .heatmap import HeatMap
from .heatmap_png import png
from .heatmap_svg import svg


@dataclass(frozen=True)
class Figure:
    """A heat map that a notebook shows by itself. `str` is its SVG."""

    drawn: HeatMap

    def __str__(self) -> str:
        return svg(self.drawn)

    def __repr__(self) -> str:
        return f"Figure of {self.drawn.title}"

    def _repr_svg_(self) -> str:
        return svg(self.drawn)

    def save(self, path: str | Path, *, dark: bool = False) -> Path:
        """Write .svg (which follows the reader's light or dark) or .png (light, unless `dark`)."""
        place = Path(path)
        if place.suffix.lower() not in (".svg", ".png"):
            raise ClearheadError(f"a figure is saved as .svg or .png, not as '{place.suffix or place.name}'")
        data = str(self).encode() if place.suffix.lower() == ".svg" else png(self.drawn, dark)
        try:
            place.write_bytes(data)
        except OSError as problem:
            raise ClearheadError(f"the figure can't be written to {place}: {problem.strerror}") from None
        return place


@dataclass(frozen=True)
class AttentionFigures:
    """The attention of a pass, layer by layer, ready to be drawn."""

    kind: str
    maps: tuple[AttentionMap, ...]

    def plot(self, layer: int = 0, head: int | None = None) -> Figure:
        """One head's weights, or without a head the mean over all of a layer; both count from 0."""
        if not -len(self.maps) <= layer < len(self.maps):
            raise ClearheadError(f"there is no layer {layer}: the trace has {len(self.maps)}, from 0")
        one = self.maps[layer]
        count = len(one.weights)
        if head is not None and not -count <= head < count:
            raise ClearheadError(f"there is no head {head}: the layer has {count}, from 0")
        which = f"mean of {count} heads" if head is None else f"head {head % count} of {count}"
        weights = one.mean if head is None else one.weights[head]
        title = f"{one.site} · layer {one.layer} · {which}"
        return Figure(HeatMap(title, weights, one.rows, one.columns, one.masked))

    def __repr__(self) -> str:
        heads = len(self.maps[0].weights)
        return f"Attention ({self.kind}): {len(self.maps)} layers of {heads} heads; .plot(layer, head) draws one"


def attention(
    trace: Trace,
    kind: str | None = None,
    item: int = 0,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> AttentionFigures:
    """The attention that a trace recorded, to be drawn: `attention(trace).plot(layer=2, head=0)`.

    The arguments are those of `attention_maps`: which kind, which input of the batch, names of tokens. Masked cells are
    known, and hatched, where the trace has `*.masked` too.
    """
    maps = attention_maps(trace, kind, item, rows=rows, columns=columns)
    part = maps[0].site.split(".")
    return AttentionFigures("cross" if part[3] == "cross" else part[0], tuple(maps))
