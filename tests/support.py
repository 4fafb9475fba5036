"""What several tests share: the plan's tolerance, attention written as loops, and other people's packages."""

import functools
import math
from types import ModuleType

import pytest
import torch
from torch import Tensor

TOLERANCE = 1e-5


def difference(a: Tensor, b: Tensor) -> float:
    """max |a - b| / max(1, max |b|). Entries that are the same infinity differ by nothing."""
    a, b = a.detach().double(), b.detach().double()
    gap = (a - b).masked_fill(a == b, 0.0).abs().max().item()
    finite = b[torch.isfinite(b)].abs()
    return gap / max(1.0, finite.max().item() if finite.numel() else 1.0)


def equal(a: Tensor, b: Tensor, tolerance: float = TOLERANCE) -> bool:
    """Equal as two paths are: the same shape, and max |a - b| <= 1e-5 * max(1, max |b|). NaN equals nothing."""
    return a.shape == b.shape and difference(a, b) <= tolerance


def attention_by_loops(
    query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, bias: Tensor | None = None, scale: float | None = None
) -> Tensor:
    """Attention in float64, one query at a time. `allowed` (B,H,L,M): who may look where; a blind query gets zeros."""
    query, key, value = (x.detach().double() for x in (query, key, value))
    batch, heads, queries, width = query.shape
    shared = heads // key.shape[1]
    scale = 1 / math.sqrt(width) if scale is None else scale
    output = torch.zeros(batch, heads, queries, value.shape[-1], dtype=torch.float64)
    for b, h, i in torch.cartesian_prod(*map(torch.arange, (batch, heads, queries))).tolist():
        seen = [j for j in range(key.shape[2]) if allowed[b, h, i, j]]
        scores = [scale * float(query[b, h, i] @ key[b, h // shared, j]) for j in seen]
        if bias is not None:
            scores = [score + bias[b, h, i, j].item() for score, j in zip(scores, seen, strict=True)]
        total = sum(math.exp(score) for score in scores)
        for score, j in zip(scores, seen, strict=True):
            output[b, h, i] += math.exp(score) / total * value[b, h // shared, j]
    return output


@functools.cache
def _torchvision_operators() -> torch.library.Library | None:
    """Declare the two operators that torchvision's Python code names, where its compiled part doesn't load.

    The library object must stay alive: the cache holds it.
    """
    try:
        import torchvision  # noqa: F401
    except ImportError:
        return None
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library
    return None


def peer(name: str) -> ModuleType:
    """A module of transformers, timm, torchvision or keras; the test is skipped where it isn't installed."""
    _torchvision_operators()
    return pytest.importorskip(name, reason=f"compares with {name.split('.')[0]}, which is not installed")
