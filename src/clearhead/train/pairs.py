"""Pairs of token rows as batches: filled up on the right, with what the decoder reads and what it shall say."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..data.buckets import EMPTY, Shape
from ..models import Model
from ..models.base import LARGEST
from .token_loss import token_loss

STRIDE = 8  # both sides are filled up to a multiple of this: few shapes
STAGED = 1 << 15  # bytes
CPU = torch.device("cpu")

Row = Sequence[int]


class PairBatch(NamedTuple):
    """source (B,S), its lengths (B,); what the decoder reads and what it shall say (B,T), and which of that counts.

    `count` says how many targets count: a tensor that stays on the CPU, so that nobody waits for a device to know it,
    and a recorded update (recorded.py) does not depend on it.
    """

    source: Tensor
    lengths: Tensor
    target: Tensor
    labels: Tensor
    weights: Tensor
    count: Tensor


class Ragged:
    """Rows of any lengths in one tensor, so that a batch of them is one look-up on the device where it lies."""

    def __init__(self, rows: Sequence[Row], device: torch.device = CPU) -> None:
        self.lengths = np.array([len(row) for row in rows], np.int64)
        self.starts = np.cumsum(self.lengths) - self.lengths
        numbers = np.fromiter(chain.from_iterable(rows), np.int32, count=int(self.lengths.sum()))
        self.numbers = torch.from_numpy(numbers).to(device)

    def filled(
        self, rows: Sequence[int] | None = None, context: int | None = None, width: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """These rows (all unless given) filled up with 0 to the width or a multiple of STRIDE, and their lengths."""
        spans = self._spans(rows)
        longest = int(spans[1].max())
        wide = width or max(longest, min(-(-longest // STRIDE) * STRIDE, context or LARGEST))
        starts, lengths = sent(torch.from_numpy(spans), self.numbers.device)
        places = torch.arange(wide, device=self.numbers.device)
        inside = places < lengths[:, None]
        return torch.where(inside, self.numbers[torch.where(inside, starts[:, None] + places, 0)].long(), 0), lengths

    def count(self, rows: Sequence[int] | None = None) -> int:
        """How many tokens these rows have, without asking a device."""
        return int(self._spans(rows)[1].sum())

    def _spans(self, rows: Sequence[int] | None) -> np.ndarray:
        """Where these rows (all unless given) begin, and how long they are, (2,B)."""
        chosen = np.arange(len(self.lengths)) if rows is None else np.asarray(rows)
        return np.stack([self.starts[chosen], np.where(chosen == EMPTY, 0, self.lengths[chosen])])


def pair_batch(
    sources: Ragged,
    targets: Ragged,
    start: int,
    device: torch.device,
    rows: Sequence[int] | None = None,
    context: int | None = None,
    shape: Shape | None = None,
) -> PairBatch:
    """Pairs of rows as one batch. The decoder reads the start token and then the target but for its last.

    A row that is not there has a source of one token and a target of none.
    """
    widths = shape or (None, None)
    source, lengths = sources.filled(rows, context, widths[0])
    labels, ends = targets.filled(rows, context, widths[1])
    read = F.pad(labels[:, :-1], (1, 0), value=start)
    weights = (torch.arange(labels.shape[1], device=labels.device) < ends[:, None]).float()
    tensors = (sent(part, device) for part in (source, lengths.clamp(min=1), read, labels, weights))
    return PairBatch(*tensors, count=torch.tensor(targets.count(rows)))


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device, without waiting for a GPU that is busy with the update before."""
    if tensor.is_cuda or device.type != "cuda":
        return tensor.to(device)
    few = tensor.nbytes <= STAGED  # a driver copies these aside at once; memory for others may have to be pinned anew
    return (tensor if few else tensor.pin_memory()).to(device, non_blocking=True)


def pair_loss(model: Model, batch: PairBatch, smoothing: float = 0.0) -> Tensor:
    hidden = model.hidden(batch.source, batch.target, batch.lengths)
    return token_loss(model, hidden, batch.labels, batch.weights, smoothing)
