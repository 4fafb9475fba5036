"""One block of the stack: attention, (cross-attention,) feed-forward, each with a residual and a norm around it.

`PreNormBlock` is how everyone trains today: x + f(norm(x)). `PostNormBlock` is as published in 2017: norm(x + f(x)).
`CompactBlock` is pre-norm but for its second norm, which the stream itself goes through.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..trace import tap
from .attention import CrossAttention, SelfAttention
from .cache import Cache
from .drop_path import dropped_rows
from .dropout import dropped


@dataclass
class Pass:
    """What the blocks of one pass share.

    mask         bool, who may look at whom in self-attention, beyond what a layer's own causality says
    bias         float, added to the scaled scores of self-attention (T5)
    positions    (B,L) where the tokens stand, for rotary layers; 0..L-1 when None
    cache        keys and values of earlier tokens; `mask` is then the cache's
    memory       keys and values of the encoder's output, a pair for each layer
    memory_mask  bool, which of them may be looked at
    skipped      so many rows, the last ones of the batch, go around the block: they come out first, as they are
    scale        what a part adds to the stream is multiplied by this, where there are rows that go around
    """

    mask: Tensor | None = None
    bias: Tensor | None = None
    positions: Tensor | None = None
    cache: Cache | None = None
    memory: list[tuple[Tensor, Tensor]] | None = None
    memory_mask: Tensor | None = None
    skipped: int = 0
    scale: float = 1.0


class Block(nn.Module):
    """The parts, and the order in which a pass goes through them. A subclass says how a part is wrapped."""

    def __init__(
        self,
        attention: SelfAttention,
        feed_forward: nn.Module,
        make_norm: Callable[[], nn.Module],
        *,
        cross: CrossAttention | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention_norm, self.attention = make_norm(), attention
        self.cross_norm, self.cross = (make_norm(), cross) if cross is not None else (None, None)
        self.feed_forward_norm, self.feed_forward = make_norm(), feed_forward
        self.dropout, self.drop_path = dropout, 0.0

    def forward(self, x: Tensor, shared: Pass, layer: int, rows: int | None = None) -> Tensor:
        """x (B,L,width) -> the same; with `rows`, what comes out for the first tokens alone (B,rows,width)."""
        if not shared.skipped:
            return self._computed(x, shared, layer, rows)
        # compiled with the block, so that its last kernel writes to the right place and nothing is moved afterwards
        through, skipped = x.split([len(x) - shared.skipped, shared.skipped])
        return torch.cat([skipped[:, :rows], self._computed(through, shared, layer, rows)])

    def _computed(self, x: Tensor, shared: Pass, layer: int, rows: int | None = None) -> Tensor:
        x = tap("input", x)
        past = None if shared.cache is None else (shared.cache, layer)

        def attend(y: Tensor) -> Tensor:
            return self.attention(y, shared.mask, shared.bias, shared.positions, past, rows, scale=shared.scale)

        x = self.around("after_attention", x, self.attention_norm, attend, rows)
        if self.cross is not None and self.cross_norm is not None:
            cross, memory = self.cross, (shared.memory or [])[layer]
            x = self.around("after_cross", x, self.cross_norm, lambda y: cross(y, memory, shared.memory_mask))
        feed_forward = self.feed_forward
        return self.around("after_feed_forward", x, self.feed_forward_norm, lambda y: feed_forward(y, shared.scale))

    def around(
        self, site: str, x: Tensor, norm: nn.Module, part: Callable[[Tensor], Tensor], rows: int | None = None
    ) -> Tensor:
        raise NotImplementedError

    def dropped(self, change: Tensor) -> Tensor:
        """What a part adds to the stream, thinned out in training: single features, or the whole of a row."""
        return dropped_rows(dropped(change, self.dropout, self.training), self.drop_path, self.training)


class PreNormBlock(Block):
    def around(
        self, site: str, x: Tensor, norm: nn.Module, part: Callable[[Tensor], Tensor], rows: int | None = None
    ) -> Tensor:
        return tap(site, x[:, :rows] + self.dropped(part(norm(x))))


class CompactBlock(PreNormBlock):
    """As CCT's authors wrote it: the stream goes through the feed-forward layer's norm, it is not only read by it."""

    def around(
        self, site: str, x: Tensor, norm: nn.Module, part: Callable[[Tensor], Tensor], rows: int | None = None
    ) -> Tensor:
        if norm is self.attention_norm:
            return super().around(site, x, norm, part, rows)
        normed = norm(x)
        return tap(site, normed + self.dropped(part(normed)))


class PostNormBlock(Block):
    def around(
        self, site: str, x: Tensor, norm: nn.Module, part: Callable[[Tensor], Tensor], rows: int | None = None
    ) -> Tensor:
        return norm(tap(site, x[:, :rows] + self.dropped(part(x))))


BLOCKS: dict[str, type[Block]] = {"pre": PreNormBlock, "post": PostNormBlock}
