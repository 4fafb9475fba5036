"""Attention as a filter on a picture: every patch becomes the mean of all patches, as a head weighs them.

A filter of a convolution is learned and the same for every picture; this one the picture makes itself. Weights on a
[CLS] in front are left out, since it has no pixels, and the others are brought to a sum of 1.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import ClearheadError
from ..models.vit import ViTConfig


def filtered_picture(image: Tensor, weights: Tensor, config: ViTConfig) -> Tensor:
    """image (C,H,W) as the model reads it, weights (L,L) of one head -> (C,H,W); where patches overlap, their mean."""
    if tuple(weights.shape) != (config.tokens, config.tokens):
        wanted = f"({config.tokens}, {config.tokens})"
        raise ClearheadError(f"a ViT of {config.tokens} tokens has weights {wanted}, not {tuple(weights.shape)}")
    in_front = config.tokens - config.grid[0] * config.grid[1]
    among = weights[in_front:, in_front:].double()
    among = among / among.sum(-1, keepdim=True)
    where = {"kernel_size": config.patch, "stride": config.step}
    patches = F.unfold(image[None].double(), **where)[0]  # pyright: ignore[reportArgumentType]
    mixed = (patches @ among.T)[None]
    sums, counts = (F.fold(p, config.image, **where) for p in (mixed, torch.ones_like(mixed)))  # pyright: ignore[reportArgumentType]
    return (sums / counts)[0].to(image.dtype)
