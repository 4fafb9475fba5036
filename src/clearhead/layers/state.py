"""Where decoding stands: what was read, what was written, and how likely each token is to come next.

A state is all that a decoder needs between two steps. Its rows can be selected (beams that survive, requests that
leave) and joined (requests that arrive) at any step, and no row notices.
"""

from dataclasses import dataclass
from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor

from .cache import Cache


@dataclass
class Encoded:
    """Sources as a decoder asks them: keys and values for each of its layers, and which of them may be looked at.

    Each source serves `beams` rows, one behind the other: they share its keys and values, nothing is copied for them.
    """

    memory: list[tuple[Tensor, Tensor]]
    mask: Tensor | None = None
    beams: int = 1

    def select(self, rows: list[int]) -> "Encoded":
        """What these rows ask, in this order. Sources are touched only when one leaves or the order changes."""
        runs = [(source, len(list(run))) for source, run in groupby(row // self.beams for row in rows)]
        beams = runs[0][1] if runs and len({count for _, count in runs}) == 1 else 1
        sources = [row // self.beams for row in rows[::beams]]
        if sources == list(range(self._count)):
            return Encoded(self.memory, self.mask, beams)
        return self._taken(sources, beams)

    def served_alike(self, rows: list[int]) -> bool:
        """Whether each row still asks the source that it asked before."""
        return all(row // self.beams == place // self.beams for place, row in enumerate(rows))

    @property
    def tensors(self) -> list[Tensor]:
        pairs = [tensor for pair in self.memory for tensor in pair]
        return pairs if self.mask is None else [*pairs, self.mask]

    @property
    def shape(self) -> tuple[int, ...]:
        """All but the number of sources."""
        key, value = self.memory[0]
        return (*key.shape[1:], *value.shape[1:], self.beams, int(self.mask is not None))

    def copied(self) -> "Encoded":
        memory = [(key.clone(), value.clone()) for key, value in self.memory]
        return Encoded(memory, None if self.mask is None else self.mask.clone(), self.beams)

    def overwrite(self, other: "Encoded") -> None:
        """Other sources of the same shape, as many or fewer, take the place of these in the same memory."""
        for ours, theirs in zip(self.tensors, other.tensors, strict=True):
            ours[: len(theirs)].copy_(theirs)

    def join(self, other: "Encoded") -> "Encoded":
        """Sources of both, the shorter ones padded; if they serve different numbers of rows, each row gets its own."""
        ours, theirs = (self, other) if self.beams == other.beams else (self._spread(), other._spread())
        length = max(ours._length, theirs._length)
        ours, theirs = ours._padded(length), theirs._padded(length)
        memory = [
            (torch.cat([ours_key, their_key]), torch.cat([ours_value, their_value]))
            for (ours_key, ours_value), (their_key, their_value) in zip(ours.memory, theirs.memory, strict=True)
        ]
        masks = [part.mask for part in (ours, theirs) if part.mask is not None]
        return Encoded(memory, torch.cat(masks) if masks else None, ours.beams)

    @property
    def _count(self) -> int:
        return len(self.memory[0][0])

    @property
    def _length(self) -> int:
        return self.memory[0][0].shape[2]

    def _spread(self) -> "Encoded":
        return self._taken([row // self.beams for row in range(self._count * self.beams)], 1)

    def _taken(self, sources: list[int], beams: int) -> "Encoded":
        at = torch.tensor(sources, device=self.memory[0][0].device, dtype=torch.long)
        memory = [(key.index_select(0, at), value.index_select(0, at)) for key, value in self.memory]
        return Encoded(memory, None if self.mask is None else self.mask.index_select(0, at), beams)

    def _padded(self, length: int) -> "Encoded":
        """With a mask in any case: the other side may need one."""
        key = self.memory[0][0]
        mask = self.mask
        if mask is None:
            mask = torch.ones(len(key), 1, 1, self._length, dtype=torch.bool, device=key.device)
        room = length - self._length
        memory = [(F.pad(key, (0, 0, 0, room)), F.pad(value, (0, 0, 0, room))) for key, value in self.memory]
        return Encoded(memory, F.pad(mask, (0, room)), self.beams)


@dataclass
class State:
    """The rows under way. `logits` (rows, vocabulary) score what comes next; a step replaces them."""

    cache: Cache
    logits: Tensor
    encoded: Encoded | None = None

    def __len__(self) -> int:
        return len(self.logits)

    def select(self, rows: list[int]) -> "State":
        """These rows, in this order; a row may be taken several times."""
        at = torch.tensor(rows, device=self.logits.device, dtype=torch.long)
        encoded = None if self.encoded is None else self.encoded.select(rows)
        return State(self.cache.select(at), self.logits.index_select(0, at), encoded)

    def reorder(self, rows: list[int]) -> None:
        """As `select`, for as many rows as there are, in the state's own memory: beams that go on at each step."""
        at = torch.tensor(rows, device=self.logits.device, dtype=torch.long)
        if self.encoded is not None and not self.encoded.served_alike(rows):
            self.encoded = self.encoded.select(rows)
        self.cache.reorder(at)
        self.logits = self.logits.index_select(0, at)

    def join(self, other: "State") -> "State":
        """The rows of both, ours first."""
        encoded = None
        if self.encoded is not None and other.encoded is not None:
            encoded = self.encoded.join(other.encoded)
        return State(self.cache.join(other.cache), torch.cat([self.logits, other.logits]), encoded)


def last_rows(hidden: Tensor, lengths: Tensor | None) -> Tensor:
    """(B,L,width) -> (B,width): what stands at each row's last true token."""
    if lengths is None:
        return hidden[:, -1]
    return hidden[torch.arange(len(hidden), device=hidden.device), lengths.to(hidden.device) - 1]
