"""What several tests share: the plan's tolerance, attention written as loops, other people's packages and models."""

import functools
import gc
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import clearhead
from clearhead.models import Model

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


def redrawn(model: nn.Module, std: float = 0.3) -> nn.Module:
    """Every weight drawn anew, biases and norms too: as they come, most biases are zero and attention is flat."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            norm = ("norm" in name or "ln_" in name) and name.endswith("weight")
            weight.normal_(1.0 if norm else 0.0, std)
    return model.eval()


def their_answer(theirs: nn.Module, inputs: Tensor, mask: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
    """(logits, attention weights by layer) of a model of transformers."""
    how = {} if mask is None else {"attention_mask": mask}
    with torch.no_grad():
        result = theirs(inputs, output_attentions=True, **how)
    return result.logits, list(result.attentions)


def handed_over(theirs: Any, folder: Path) -> Model:
    """Ours, out of the folder that theirs writes."""
    theirs.save_pretrained(folder)
    return clearhead.load(folder, device="cpu")


@contextmanager
def large_handed_over(
    make: Callable[[], Any], inputs: Tensor, folder: Path
) -> Iterator[tuple[Model, tuple[Tensor, list[Tensor]]]]:
    """Ours out of their folder, and what theirs answered: theirs is gone before ours comes, and the folder after it."""
    theirs = make()
    numbers = their_answer(theirs, inputs)
    theirs.save_pretrained(folder)
    del theirs
    gc.collect()
    try:
        yield clearhead.load(folder, device="cpu"), numbers
    finally:
        shutil.rmtree(folder)  # pytest would keep gigabytes
