"""Mean attention distance: how far away a head looks, in pixels or in tokens.

For every token that looks, the mean of the distances to what it looks at, weighted by attention:
d_i = sum_j A_ij |i - j| / sum_j A_ij; then the mean over these. Pictures: Dosovitskiy et al. 2021, figure 11, where the
distance is between the centres of patches, and [CLS], which stands nowhere, is left out.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import ClearheadError
from ..models.vit import ViTConfig
from .attention import AttentionMap


def attention_distances(maps: Sequence[AttentionMap], config: ViTConfig | None = None) -> Tensor:
    """(layers, heads): in pixels where a ViT's config is given, else in tokens."""
    if not maps:
        raise ClearheadError("there are no attention maps to measure")
    return torch.stack([token_distance(one) if config is None else pixel_distance(one, config) for one in maps])


def token_distance(one: AttentionMap) -> Tensor:
    """(heads,): how many tokens away each head looks in the mean."""
    looks, seen = one.weights.shape[1:]
    if looks != seen:
        raise ClearheadError(
            f"{one.site} looks from {looks} tokens at {seen} others: there is no distance between them"
        )
    at = torch.arange(looks, dtype=torch.float64)
    return _weighted(one.weights, (at[:, None] - at).abs())


def pixel_distance(one: AttentionMap, config: ViTConfig) -> Tensor:
    """(heads,): how many pixels away each head of a ViT looks in the mean, from patch to patch."""
    if tuple(one.weights.shape[1:]) != (config.tokens, config.tokens):
        raise ClearheadError(
            f"a ViT of {config.tokens} tokens has weights (heads, {config.tokens}, {config.tokens}), "
            f"not {tuple(one.weights.shape)}"
        )
    centres = patch_centres(config)
    first = config.tokens - len(centres)
    return _weighted(one.weights[:, first:, first:], torch.cdist(centres, centres))


def patch_centres(config: ViTConfig) -> Tensor:
    """(patches, 2): where the middle of each patch lies, from the top and from the left, in pixels."""
    sides = [
        torch.arange(count, dtype=torch.float64) * step + (size - 1) / 2
        for count, step, size in zip(config.grid, config.step, config.patch, strict=True)  # pyright: ignore
    ]
    return torch.cartesian_prod(*sides)


def _weighted(weights: Tensor, distances: Tensor) -> Tensor:
    """weights (H,L,L), distances (L,L) -> (H,). Rows that look at nothing here don't count."""
    weights = weights.double()
    sums = weights.sum(-1)
    looks = sums > 0
    rows = (weights * distances).sum(-1) / sums.where(looks, torch.ones_like(sums))
    return ((rows * looks).sum(-1) / looks.sum(-1).clamp(min=1)).float()
