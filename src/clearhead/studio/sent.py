"""A tensor, or a part of it, as an answer in binary: see binary.py for the headers."""

import math

import torch
from torch import Tensor

from ..errors import ClearheadError
from .binary import LARGEST, Span, joined, packed
from .passes_api import Bytes


def sent(whole: Tensor, *spans: Span, **more: str) -> Bytes:
    """The part of `whole` that the spans of its first dimensions name, all of the others; `more` headers by name."""
    spans = (*spans, *((0, size) for size in whole.shape[len(spans) :]))
    count = math.prod(end - start for start, end in spans)
    if count > LARGEST:
        raise ClearheadError(f"{count:,} numbers are more than one answer holds ({LARGEST:,}): ask for a part of them")
    told = {
        "X-Shape": joined(*whole.shape),
        "X-Slice": joined(*(end for span in spans for end in span)),
        "X-Range": joined(*value_range(whole)),
        **{f"X-{name}": value for name, value in more.items()},
    }
    return Bytes(packed(whole[tuple(slice(*span) for span in spans)]), headers=told)


def value_range(values: Tensor) -> tuple[float, float]:
    """Least and largest of the finite values; not a number where none is finite."""
    finite = values[torch.isfinite(values)]
    return (finite.min().item(), finite.max().item()) if finite.numel() else (math.nan, math.nan)
