"""Two pictures in one: mixup (Zhang and others 2017) and CutMix (Yun and others 2019), for each picture on its own.

A picture's partner is the one before it in the batch, which is in random order already.
"""

from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from .crops import box_mask


class Pair(NamedTuple):
    """The labels of both pictures, and how much of the first one there is: all (B,)."""

    first: Tensor
    second: Tensor
    weight: Tensor

    def soft(self, classes: int) -> Tensor:
        """The same as one probability for each class, (B, classes)."""
        first, second = one_hot(self.first, classes), one_hot(self.second, classes)
        return torch.lerp(second.float(), first.float(), self.weight[:, None])


class Mixing(NamedTuple):
    """What is done to each picture, (B,): `share` of it is kept by mixup, and `boxes` (B,4) of it are cut away."""

    share: Tensor
    boxes: Tensor


def draw_mixing(
    batch: int,
    height: int,
    width: int,
    mixup: tuple[float, float],
    cutmix: tuple[float, float],
    generator: Generator,
) -> Mixing:
    """Mixup and CutMix with their chances and the alpha of each one's Beta(alpha, alpha); never both on one picture."""
    device = generator.device
    lot, down, across = torch.rand(3, batch, generator=generator, device=device)
    mixed, cut = lot < mixup[0], (lot >= mixup[0]) & (lot < mixup[0] + cutmix[0])
    share = torch.where(mixed, _beta(batch, mixup[1], generator), 1.0)
    edge = (1 - _beta(batch, cutmix[1], generator)).sqrt()
    tall, wide = (edge * height).floor(), (edge * width).floor()
    top, left = (down * height).floor() - (tall / 2).floor(), (across * width).floor() - (wide / 2).floor()
    boxes = torch.stack([top, left, tall, wide], 1)
    return Mixing(share, torch.where(cut[:, None], boxes, 0.0))


def _beta(batch: int, alpha: float, generator: Generator) -> Tensor:
    """Beta(alpha, alpha) as x / (x + y) with x and y from Gamma(alpha)."""
    alphas = torch.full((2, batch), float(alpha), device=generator.device)
    x, y = torch.ops.aten._standard_gamma(alphas, generator=generator)
    return x / (x + y)


def mix(pixels: Tensor, labels: Tensor, mixing: Mixing) -> tuple[Tensor, Pair]:
    """Every picture with its partner. The weight of a cut picture is the share of its area that is left, exactly."""
    partner = pixels.roll(1, 0)
    blended = torch.lerp(partner, pixels, mixing.share[:, None, None, None])
    mask = box_mask(mixing.boxes, *pixels.shape[-2:])
    weight = mixing.share * (1 - mask.float().mean((1, 2, 3)))
    return torch.where(mask, partner, blended), Pair(labels, labels.roll(1), weight)
