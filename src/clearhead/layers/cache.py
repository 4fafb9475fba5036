"""The cache: keys and values of tokens already seen, so that a new token costs one row of work, not a prefix.

Pre-allocated as (B, S, G, d) a layer and written in place. Every row has its own length, so ragged prompts decode as if
each were alone: what lies beyond a row's length is never looked at, and the row's next token is written over it.

What the host must know (how many slots are used, whether all rows are equally long) is settled in `begin` and
`advance`, outside the layers: between the two a pass touches tensors alone. With `bucket` the shapes of a pass are
static too: it looks at the first 1, 2, 3, 4, 6, 8, 12 ... buckets, or at all the slots there are: so a few shapes serve
every length, and no more slots are held than were asked for.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

SLOTS = 8  # in static shapes there is a multiple of these: attention's kernels read a mask so many numbers at a time


@dataclass
class Cache:
    keys: list[Tensor]
    values: list[Tensor]
    lengths: Tensor
    used: int = 0
    even: bool = True
    bucket: int | None = None
    seen: int = 0
    blank: bool = True  # no slot holds what memory happened to hold: a masked NaN would still make NaN

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
        bucket: int | None = None,
    ) -> "Cache":
        """Room for `size` tokens a row; `widths` are those of a key and of a value."""
        if bucket is not None:
            size = whole_slots(size)
        key_width, value_width = widths
        keys = [torch.zeros(batch, size, heads, key_width, device=device, dtype=dtype) for _ in range(layers)]
        values = [torch.zeros(batch, size, heads, value_width, device=device, dtype=dtype) for _ in range(layers)]
        return cls(keys, values, torch.zeros(batch, dtype=torch.long, device=device), bucket=bucket)

    @property
    def size(self) -> int:
        return self.keys[0].shape[1]

    @property
    def fresh(self) -> bool:
        """Nothing is in it yet, and shapes are free: what comes first needs no look back."""
        return self.bucket is None and self.used == 0  # in this order: a compiled step must not depend on `used`

    def begin(self, count: int) -> None:
        """`count` tokens are about to come to every row: make room, and settle how many slots they look at."""
        end = self.used + count
        if end > self.size:
            self._grow(max(end if self.bucket is None else whole_slots(end), 2 * self.size))
        self.seen = end if self.bucket is None else min(stepped(self.bucket, end), self.size)

    def positions(self, count: int) -> Tensor:
        """(B or 1, count): where the next `count` tokens of each row stand."""
        steps = torch.arange(count, device=self.lengths.device)
        return self.used + steps[None] if self._uniform else self.lengths[:, None] + steps

    def mask(self, count: int, window: int | None = None) -> Tensor | None:
        """(B,1,count,seen): the next tokens see their own row's past and themselves; None if that is all there is."""
        if self._uniform and count == 1 and window is None:
            return None
        behind = self.positions(count)[:, :, None] - torch.arange(self.seen, device=self.lengths.device)
        allowed = behind >= 0 if window is None else (behind >= 0) & (behind < window)
        return allowed[:, None]

    def extend(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write new keys and values (B,G,L,d) behind each row's own end; return what is seen of them, (B,G,seen,d)."""
        for store, new in ((self.keys[layer], key), (self.values[layer], value)):
            if self._uniform:
                store[:, self.used : self.used + new.shape[2]].copy_(new.transpose(1, 2))
            else:
                rows = torch.arange(len(self.lengths), device=new.device)[:, None]
                store[rows, self.positions(new.shape[2])] = new.transpose(1, 2).to(store.dtype)
        return self.keys[layer][:, : self.seen].transpose(1, 2), self.values[layer][:, : self.seen].transpose(1, 2)

    def advance(self, count: int, lengths: Tensor | None = None) -> None:
        """Every layer has written `count` tokens; `lengths` says how many of them each ragged row really has."""
        self.lengths += count if lengths is None else lengths
        if lengths is None:
            self.used += count
        else:
            self._measure()
            self._wipe()

    def select(self, rows: Tensor) -> "Cache":
        """The cache of these rows, in this order: beams that survive, requests that stay."""
        filled = self.used if self.bucket is None else self.size
        keys, values = ([_taken(t, rows, filled, self.even) for t in side] for side in (self.keys, self.values))
        chosen = Cache(keys, values, self.lengths.index_select(0, rows), self.used, self.even, self.bucket)
        chosen.blank = not self._uniform
        if not self.even or not len(rows):
            chosen._measure()
        return chosen

    def reorder(self, rows: Tensor) -> None:
        """As many rows as before take the places of these, in the same memory; a row may be taken several times."""
        for side in (self.keys, self.values):
            for store in side:
                store[:, : self.used] = store[:, : self.used].index_select(0, rows)
        if not self.even:
            self.lengths.copy_(self.lengths.index_select(0, rows))
            self._measure()

    def join(self, other: "Cache") -> "Cache":
        """The rows of both, ours first: requests that arrive while others are under way."""
        size, filled = max(self.size, other.size), (self.used, other.used)
        keys, values = (
            [_stacked(pair, filled, size) for pair in zip(ours, theirs, strict=True)]
            for ours, theirs in ((self.keys, other.keys), (self.values, other.values))
        )
        even = self.even and other.even and self.used == other.used
        lengths = torch.cat([self.lengths, other.lengths])
        return Cache(keys, values, lengths, max(filled), even, self.bucket)

    @property
    def _uniform(self) -> bool:
        """Whether one number says where every row ends; static shapes leave that to the tensor of lengths."""
        return self.even and self.bucket is None

    def _measure(self) -> None:
        ends = self.lengths.tolist()
        self.used, self.even = max(ends, default=0), len(set(ends)) <= 1

    def _wipe(self) -> None:
        """From now on rows of different lengths look, under a mask, at slots that nobody wrote."""
        if not self.even and not self.blank:
            for store in (*self.keys, *self.values):
                store[:, self.used :] = 0.0
            self.blank = True

    def _grow(self, size: int) -> None:
        if size > self.size:
            for side in (self.keys, self.values):
                side[:] = [torch.cat([t, t.new_zeros(len(t), size - t.shape[1], *t.shape[2:])], 1) for t in side]


def whole_slots(least: int) -> int:
    return -(-least // SLOTS) * SLOTS


def stepped(bucket: int, least: int) -> int:
    """The first of 1, 2, 3, 4, 6, 8, 12, 16 ... buckets that holds at least so many: a third of it too much at most."""
    wanted = -(-least // bucket)
    whole = 1 << max(0, wanted - 1).bit_length()
    return bucket * (whole * 3 // 4 if whole >= 4 and wanted <= whole * 3 // 4 else whole)


def _taken(store: Tensor, rows: Tensor, filled: int, even: bool) -> Tensor:
    """These rows with the same room: only slots that were written are copied, and ragged rows see zeros behind them."""
    taken = (store.new_empty if even else store.new_zeros)(len(rows), *store.shape[1:])
    taken[:, :filled] = store[:, :filled].index_select(0, rows)
    return taken


def _stacked(stores: tuple[Tensor, Tensor], filled: tuple[int, int], size: int) -> Tensor:
    """The rows of both with room for `size` tokens; what was never written is zero, since ragged rows are masked."""
    ours, theirs = stores
    both = ours.new_zeros(len(ours) + len(theirs), size, *ours.shape[2:])
    both[: len(ours), : filled[0]] = ours[:, : filled[0]]
    both[len(ours) :, : filled[1]] = theirs[:, : filled[1]]
    return both
