"""Classified pictures with the attention of what the head reads, mistakes first."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..analyse import attention_maps, patch_maps, patch_names
from ..data import Preprocessor
from ..errors import ClearheadError
from ..models import Model
from ..models.vit import ViT
from ..runs import preprocessor
from ..runs.labels import labels
from ..tasks import record
from ..tasks.embed import answering
from .sample_kinds import COUNT, PictureSample, mistakes_first

AT_ONCE = 64  # pictures that are classified together


def picture_samples(
    model: Model,
    pictures: Tensor | Sequence[Path],
    truths: Tensor | Sequence[int],
    count: int = COUNT,
    *,
    classes: Sequence[str] | None = None,
    scores: Tensor | None = None,
) -> list[PictureSample]:
    """pictures: uint8 (N,C,H,W) or files; truths: the numbers of their classes.

    classes  names of the classes, the model's own unless given
    scores   (N, classes) where they were computed already; every picture is classified here otherwise
    """
    if not isinstance(model, ViT):
        raise ClearheadError(f"pictures are classified by a ViT, not by a {type(model).__name__}")
    names, numbers = classes or labels(model).names, [int(truth) for truth in truths]
    if not numbers:
        return []
    prepare = preprocessor(model)
    if scores is None:
        with answering(model):
            scores = torch.cat(
                [
                    model(_prepared(model, prepare, pictures[start : start + AT_ONCE])).float().cpu()
                    for start in range(0, len(numbers), AT_ONCE)
                ]
            )
    best = scores.softmax(-1).max(-1)
    order = mistakes_first(best.indices.tolist(), numbers, best.values.tolist(), count)
    return [
        _picture(model, prepare, pictures[n : n + 1], names[numbers[n]], names[int(best.indices[n])], best.values[n])
        for n in order
    ]


def _prepared(model: ViT, prepare: Preprocessor, pictures: Tensor | Sequence[Path]) -> Tensor:
    """(B,C,H,W) as `classify` gives them to the model."""
    arrays = [p if isinstance(p, Path) else _array(p) for p in pictures]
    pixels = prepare.batch(arrays)
    pixels = pixels.mean(1, keepdim=True) if model.config.channels == 1 else pixels
    return pixels.to(model.device, model.dtype)


def _array(picture: Tensor) -> np.ndarray:
    """(C,H,W) bytes as Pillow takes them: (H,W) where they are grey."""
    array = picture.permute(1, 2, 0).numpy()
    return np.ascontiguousarray(array[:, :, 0] if array.shape[2] == 1 else array)


def _picture(
    model: ViT, prepare: Preprocessor, picture: Any, truth: str, predicted: str, sure: Tensor
) -> PictureSample:
    pixels = _prepared(model, prepare, picture)
    names = patch_names(model.config)
    maps = attention_maps(record(model, pixels, sites="*.attention.weights"), rows=names)
    attention = torch.stack([patch_maps(one.weights, model.config) for one in maps])
    seen, grey = pixels[0].float().cpu(), model.config.channels == 1
    mean, std = (torch.tensor(values[:1] if grey else values)[:, None, None] for values in (prepare.mean, prepare.std))
    shown = ((seen * std + mean) / prepare.scale).round().clamp(0, 255).byte()
    return PictureSample(shown, truth, predicted, float(sure), attention, model.config)
