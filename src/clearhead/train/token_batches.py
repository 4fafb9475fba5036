"""Windows of a stream of tokens as batches, and the loss of the next token."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..models import Model
from .token_loss import token_loss


class TokenBatch(NamedTuple):
    """ids and what comes next, both (B,L); `weights` (B,L) where not everything counts; how many targets do."""

    ids: Tensor
    targets: Tensor
    weights: Tensor | None
    count: int


def next_token_losses(model: Model, batch: TokenBatch) -> dict[str, Tensor]:
    return {"loss": token_loss(model, model.hidden(batch.ids), batch.targets, batch.weights)}


def places(count: int, length: int, stride: int) -> list[tuple[int, int]]:
    """Where each window over `count` targets begins, and from which of its places on it is scored: each target once."""
    starts = [*range(0, count - length, stride), max(0, count - length)]
    done = [0, *(start + length for start in starts)]
    return [(start, before - start) for start, before in zip(starts, done, strict=False)]


def scored_windows(
    stream: np.ndarray, window: int, stride: int, rows: int, device: torch.device
) -> Iterator[TokenBatch]:
    """All of a stream as batches of windows of one length."""
    length = min(window, len(stream) - 1)
    listed = places(len(stream) - 1, length, stride)
    for first in range(0, len(listed), rows):
        some = listed[first : first + rows]
        both = torch.from_numpy(np.stack([stream[start : start + length + 1] for start, _ in some])).to(device)
        begins = torch.tensor([begin for _, begin in some], device=device)
        weights = (torch.arange(length, device=device) >= begins[:, None]).float()
        yield TokenBatch(both[:, :-1], both[:, 1:], weights, sum(length - begin for _, begin in some))
