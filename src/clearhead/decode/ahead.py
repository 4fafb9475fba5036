"""The best tokens, a burst at a time: while the host looks at one, the device writes the next."""

from collections.abc import Iterator

import torch
from torch import Tensor

from .pieces import Limits, Piece, Written, with_reason
from .protocol import Burst, Rows, WritesAhead

BURST = 32  # tokens that are written at once


class Ahead:
    """Rows of a state that write greedily. One that ends is noticed late: what it writes until then is thrown away.

    `most` is how many tokens each row may get.
    """

    def __init__(self, model: WritesAhead, state: Rows, most: list[int], limits: Limits) -> None:
        self.model, self.state, self.most, self.limits = model, state, most, limits

    def pieces(self, tokens: list[int], rows: list[int], written: list[Written]) -> Iterator[list[Piece]]:
        """For each step what the rows got; `tokens` were told already and are fed first."""
        fed = torch.tensor(tokens, device=self.state.logits.device)
        burst = self._burst(fed, self._left(rows, written))
        while True:
            under_way = [row for row in rows if written[row].reason is None]
            left, next_rows, following = self._left(under_way, written) - len(burst), under_way, None
            if left > 0:
                following = self._following(burst, rows, under_way, left)
            yield from self._told(burst, rows, written)
            under_way = [row for row in rows if written[row].reason is None]
            if not under_way:
                return
            if following is None:  # a row was at its limit, others go on
                next_rows = under_way
                following = self._following(burst, rows, under_way, self._left(under_way, written))
            burst, rows = following, next_rows

    def _burst(self, tokens: Tensor, most: int) -> Burst:
        return self.model.ahead(tokens, self.state, min(BURST, most), self.limits.never)

    def _following(self, burst: Burst, rows: list[int], going: list[int], most: int) -> Burst:
        """What comes behind a burst of `rows`, for those that go on."""
        tokens = burst.last
        if len(going) < len(rows):
            staying = set(going)
            places = [place for place, row in enumerate(rows) if row in staying]
            self.state, tokens = self.state.select(places), tokens[torch.tensor(places, device=tokens.device)]
        return self._burst(tokens, most)

    def _left(self, rows: list[int], written: list[Written]) -> int:
        """How many tokens all of these rows may still get."""
        return min(self.most[row] - len(written[row].tokens) for row in rows)

    def _told(self, burst: Burst, rows: list[int], written: list[Written]) -> Iterator[list[Piece]]:
        for tokens, logprobs in zip(*burst.read(), strict=True):
            pieces = [
                with_reason(Piece(row, token, logprob), written[row].tokens, self.limits, self.most[row], None)
                for row, token, logprob in zip(rows, tokens, logprobs, strict=True)
                if written[row].reason is None
            ]
            for piece in pieces:
                written[piece.row].add(piece)
            if not pieces:
                return
            yield pieces
