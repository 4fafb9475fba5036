"""Attention rollout: how much of each token is in what comes out of each layer (Abnar and Zuidema 2020).

A layer's weights are averaged over its heads; the residual carries every token on, so the identity is added, and rows
are brought back to a sum of 1: A' = (A + I) / rowsum. What a layer's output holds of the input is the product
A'_n ... A'_1. Shapes: N layers, H heads, L tokens.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ..errors import ClearheadError
from ..trace import Trace
from .attention import AttentionMap, attention_maps

FUSIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda weights: weights.mean(0),
    "max": lambda weights: weights.amax(0),
    "min": lambda weights: weights.amin(0),
}


def rollout(
    trace: Trace, kind: str | None = None, item: int = 0, *, heads: str = "mean", discard: float = 0.0
) -> Tensor:
    """(N,L,L): after each layer, row i says of which tokens token i is made; rows sum to 1.

    kind     "encoder" or "decoder": self-attention alone, since cross-attention mixes two sequences
    heads    how the heads become one: "mean", "max" or "min"
    discard  the share of a layer's smallest weights that is set to 0 first, from 0 to below 1
    """
    if kind == "cross":
        raise ClearheadError("cross-attention mixes two sequences: roll out the encoder's or the decoder's own")
    if heads not in FUSIONS:
        raise ClearheadError(f"heads are joined by {', '.join(FUSIONS)}, not by {heads!r}")
    if not 0 <= discard < 1:
        raise ClearheadError(f"the share to discard is at least 0 and below 1, not {discard!r}")
    maps = _every_layer(attention_maps(trace, kind, item))
    steps = [_with_residual(_without_smallest(FUSIONS[heads](one.weights.double()), discard)) for one in maps]
    return _products(steps).float()


def _products(steps: list[Tensor]) -> Tensor:
    """A_1, A_2 A_1, A_3 A_2 A_1 ..., one behind the other."""
    so_far = [steps[0]]
    for step in steps[1:]:
        so_far.append(step @ so_far[-1])
    return torch.stack(so_far)


def _every_layer(maps: list[AttentionMap]) -> list[AttentionMap]:
    """The maps, if none is missing and each is square."""
    for layer, one in enumerate(maps):
        if one.layer != layer:
            raise ClearheadError(f"the trace lacks the weights of layer {layer}: record '*.weights'")
        if one.weights.shape[1] != one.weights.shape[2]:
            looks, seen = one.weights.shape[1:]
            raise ClearheadError(f"{one.site} has {looks} rows and {seen} columns: record a whole pass without a cache")
    return maps


def _without_smallest(weights: Tensor, share: float) -> Tensor:
    count = int(weights.numel() * share)
    if not count:
        return weights
    return weights.flatten().scatter(0, weights.flatten().topk(count, largest=False).indices, 0.0).view_as(weights)


def _with_residual(weights: Tensor) -> Tensor:
    both = weights + torch.eye(len(weights), dtype=weights.dtype)
    return both / both.sum(-1, keepdim=True)
