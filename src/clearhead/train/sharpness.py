"""Sharpness-aware updates (Foret and others 2020): gradients are taken a step uphill, and narrow valleys left.

Each update costs two passes. Most of what they gain they gain at the end of a run (Zhou and others 2024), so that
`sharpness` may be 0 until then. The second pass draws dropout, patches and rows of its own.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

SMALLEST = 1e-12  # where all gradients are 0 there is no way up


@contextmanager
def uphill(weights: Iterable[nn.Parameter], radius: float) -> Iterator[None]:
    """The weights stand `radius` further along their gradients inside, which are forgotten, and are back behind."""
    moved: list[Tensor] = [weight for weight in weights if weight.grad is not None]
    gradients: list[Tensor] = [weight.grad for weight in moved if weight.grad is not None]
    own = [weight.detach().clone() for weight in moved]
    with torch.no_grad():
        share = radius / nn.utils.get_total_norm(gradients).clamp(min=SMALLEST)
        torch._foreach_add_(moved, torch._foreach_mul(gradients, share))  # pyright: ignore[reportPrivateImportUsage]
    for weight in moved:
        weight.grad = None
    try:
        yield
    finally:
        with torch.no_grad():
            torch._foreach_copy_(moved, own)  # pyright: ignore[reportPrivateImportUsage]
