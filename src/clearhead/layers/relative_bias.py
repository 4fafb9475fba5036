"""Where tokens stand towards one another, as numbers added to the scores (Raffel et al. 2020)."""

import torch
from torch import Tensor, nn

from ..ops.positions import relative_buckets


class RelativeBias(nn.Module):
    """A learned number for every head and bucket of distances. One table serves all blocks of a stack.

    Keys before and behind a query have buckets of their own if `bidirectional`; else only those before it have.
    """

    def __init__(self, heads: int, *, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        self.buckets, self.max_distance, self.bidirectional = buckets, max_distance, bidirectional

    def forward(self, keys: int, positions: Tensor | None = None) -> Tensor:
        """(B,H,L,keys) for queries that stand at `positions` (B,L); (1,H,keys,keys) when every key asks."""
        at = torch.arange(keys, device=self.weight.device)
        asking = at[None] if positions is None else positions
        buckets = relative_buckets(
            at - asking[..., None],
            buckets=self.buckets,
            max_distance=self.max_distance,
            bidirectional=self.bidirectional,
        )
        return nn.functional.embedding(buckets, self.weight).movedim(-1, 1)
