"""The cache: keys and values of tokens already seen, so that a new token costs one row of work, not a prefix.

Pre-allocated as (B, S, G, d) a layer and written in place. Every row has its own length, so ragged prompts decode as if
each were alone: what lies beyond a row's length is never looked at, and the row's next token is written over it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Cache:
    keys: list[Tensor]
    values: list[Tensor]
    lengths: Tensor
    used: int = 0

    @classmethod
    def empty(
        cls,
        layers: int,
        batch: int,
        size: int,
        heads: int,
        widths: tuple[int, int],
        device: torch.device,
        dtype: torch.dtype,
    ) -> "Cache":
        """Room for `size` tokens a row; `widths` are those of a key and of a value."""
        key_width, value_width = widths
        keys = [torch.zeros(batch, size, heads, key_width, device=device, dtype=dtype) for _ in range(layers)]
        values = [torch.zeros(batch, size, heads, value_width, device=device, dtype=dtype) for _ in range(layers)]
        return cls(keys, values, torch.zeros(batch, dtype=torch.long, device=device))

    @property
    def size(self) -> int:
        return self.keys[0].shape[1]

    def positions(self, count: int) -> Tensor:
        """(B, count): where the next `count` tokens of each row stand."""
        return self.lengths[:, None] + torch.arange(count, device=self.lengths.device)

    def mask(self, count: int, window: int | None = None) -> Tensor:
        """(B,1,count,used+count): the next tokens see their own row's past and themselves, nothing later."""
        behind = self.positions(count)[:, :, None] - torch.arange(self.used + count, device=self.lengths.device)
        allowed = behind >= 0 if window is None else (behind >= 0) & (behind < window)
        return allowed[:, None]

    def extend(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write new keys and values (B,G,L,d) behind each row's own end; return all of that layer's, (B,G,used+L,d)."""
        count = key.shape[2]
        end = self.used + count
        if end > self.size:
            self._grow(max(end, 2 * self.size))
        rows, at = torch.arange(len(self.lengths), device=key.device)[:, None], self.positions(count)
        self.keys[layer][rows, at] = key.transpose(1, 2).to(self.keys[layer].dtype)
        self.values[layer][rows, at] = value.transpose(1, 2).to(self.values[layer].dtype)
        return self.keys[layer][:, :end].transpose(1, 2), self.values[layer][:, :end].transpose(1, 2)

    def advance(self, count: int, lengths: Tensor | None = None) -> None:
        """Every layer has written `count` tokens; `lengths` says how many of them each ragged row really has."""
        self.lengths = self.lengths + (count if lengths is None else lengths)
        self.used = self.used + count if lengths is None else _longest(self.lengths)

    def select(self, rows: Tensor) -> "Cache":
        """The cache of these rows, in this order: beams that survive, requests that stay."""
        keys, values = ([t.index_select(0, rows) for t in side] for side in (self.keys, self.values))
        lengths = self.lengths.index_select(0, rows)
        return Cache(keys, values, lengths, _longest(lengths))

    def join(self, other: "Cache") -> "Cache":
        """The rows of both, ours first: requests that arrive while others are under way."""
        size = max(self.size, other.size)
        for cache in (self, other):
            cache._grow(size)
        keys, values = (
            [torch.cat(pair) for pair in zip(ours, theirs, strict=True)]
            for ours, theirs in ((self.keys, other.keys), (self.values, other.values))
        )
        return Cache(keys, values, torch.cat([self.lengths, other.lengths]), max(self.used, other.used))

    def _grow(self, size: int) -> None:
        if size > self.size:
            for side in (self.keys, self.values):
                side[:] = [torch.cat([t, t.new_zeros(len(t), size - t.shape[1], *t.shape[2:])], 1) for t in side]


def _longest(lengths: Tensor) -> int:
    return int(lengths.max()) if len(lengths) else 0
