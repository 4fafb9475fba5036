"""Attention maps read off a trace: per layer and head the weights, with the names of who looks and who is looked at.

Shapes: H heads, L tokens that look (rows), M tokens that are looked at (columns), R x C a picture's patches.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import ClearheadError
from ..models.vit import ViTConfig
from ..tasks.record import row_tokens
from ..trace import Trace

CLASS_TOKEN = "[CLS]"
_WEIGHTS = re.compile(r"(encoder|decoder)\.blocks\.(\d+)\.(attention|cross)\.weights")


@dataclass(frozen=True)
class AttentionRow:
    """Where one token looks: `weights` (H,M) over `columns`. `of` is the token's name."""

    of: str
    columns: tuple[str, ...]
    weights: Tensor
    site: str

    @property
    def mean(self) -> Tensor:
        """(M,), over the heads."""
        return self.weights.mean(0)


@dataclass(frozen=True)
class AttentionMap:
    """One layer's weights (H,L,M): row i of a head says where token i looks, and sums to 1.

    masked  (L,M) true where a token was not allowed to look; None where that was not recorded
    """

    site: str
    layer: int
    weights: Tensor
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    masked: Tensor | None = None

    @property
    def mean(self) -> Tensor:
        """(L,M), over the heads."""
        return self.weights.mean(0)

    def row(self, place: int) -> AttentionRow:
        """Where the token at this place looks; a place may count from the end."""
        return AttentionRow(self.rows[place], self.columns, self.weights[:, place], self.site)


def attention_maps(
    trace: Trace,
    kind: str | None = None,
    item: int = 0,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> list[AttentionMap]:
    """One input's maps, first layer first.

    kind           "encoder", "decoder", or "cross": the decoder's of the encoder; may be left out where there is one
    item           which input of the batch
    rows, columns  names of the tokens, where the trace was recorded from numbers and has none; their places otherwise
    """
    found: dict[str, dict[int, str]] = {}
    for site in trace:
        if match := _WEIGHTS.fullmatch(site):
            stack, layer, part = match.groups()
            found.setdefault("cross" if part == "cross" else stack, {})[int(layer)] = site
    sites = found.get(_chosen(kind, list(found)), {})
    return [_map(trace, layer, site, item, rows, columns) for layer, site in sorted(sites.items())]


def _chosen(kind: str | None, found: list[str]) -> str:
    known = ", ".join(found) or "none: record '*.weights'"
    if kind is None:
        if len(found) != 1:
            raise ClearheadError(f"say which attention is wanted; the trace has {known}")
        return found[0]
    if kind not in found:
        raise ClearheadError(f"the trace has no attention weights of kind {kind!r}; it has {known}")
    return kind


def _map(
    trace: Trace, layer: int, site: str, item: int, rows: Sequence[str] | None, columns: Sequence[str] | None
) -> AttentionMap:
    weights_BHLM = trace[site]
    if not 0 <= item < len(weights_BHLM):
        raise ClearheadError(f"the trace holds {len(weights_BHLM)} inputs: there is no number {item}")
    weights, part = weights_BHLM[item].float(), site.removesuffix(".weights")
    asking, asked = row_tokens(trace.about, site), row_tokens(trace.about, f"{part}.key")
    scores = trace.values.get(f"{part}.masked")
    return AttentionMap(
        site,
        layer,
        weights,
        _names(rows or asking, weights.shape[1], "rows", site),
        _names(columns or (asked if asked is not None else rows), weights.shape[2], "columns", site),
        None if scores is None else (scores[min(item, len(scores) - 1)] == float("-inf")).all(0),
    )


def _names(given: Sequence[str] | None, count: int, what: str, site: str) -> tuple[str, ...]:
    if given is None:
        return tuple(map(str, range(count)))
    if len(given) != count:
        raise ClearheadError(f"{site} has {count} {what}, and {len(given)} names were given")
    return tuple(given)


def patch_names(config: ViTConfig) -> tuple[str, ...]:
    """A ViT's tokens: [CLS], if there is one, and the patches by row and column, counted from 1."""
    rows, columns = config.grid
    patches = tuple(f"{row + 1},{column + 1}" for row in range(rows) for column in range(columns))
    return (CLASS_TOKEN, *patches) if config.pooling == "cls" else patches


def patch_maps(weights: Tensor, config: ViTConfig) -> Tensor:
    """weights (H,L,L) of a ViT's layer -> (H,R,C): how much of each patch goes into what the head reads.

    That is where [CLS] looks, without what it keeps of itself; without [CLS] the plain mean over all that look.
    """
    if tuple(weights.shape[1:]) != (config.tokens, config.tokens):
        raise ClearheadError(
            f"a ViT of {config.tokens} tokens has weights (heads, {config.tokens}, {config.tokens}), "
            f"not {tuple(weights.shape)}"
        )
    looks = weights[:, 0, 1:] if config.pooling == "cls" else weights.mean(1)
    return looks.unflatten(-1, config.grid)


def over_pixels(patches: Tensor, config: ViTConfig) -> Tensor:
    """patches (R,C) -> (height, width): every pixel has its patch's value, the mean where patches overlap."""
    area = config.patch[0] * config.patch[1]  # pyright: ignore[reportIndexIssue]
    columns_of = patches.flatten().float().expand(1, area, -1)
    where = {"output_size": config.image, "kernel_size": config.patch, "stride": config.step}
    sums, counts = (F.fold(values, **where)[0, 0] for values in (columns_of, torch.ones_like(columns_of)))  # pyright: ignore
    return sums / counts
