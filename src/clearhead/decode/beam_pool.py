"""Memory for many beam searches at once, and the graphs captured in it: their steps never wait for the host.

A search's beams are rows one behind the other. They share their source, and their keys and values move to where the
beam that took them over has its row.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..layers import Cache, Encoded, State
from .beam_books import Books
from .beam_rules import Beams, Hypothesis
from .graphs import Graphs, many_shapes
from .protocol import Look


class BeamPool:
    """One shape of searches, as many as the first ones were or fewer. Each begin takes it over for new searches.

    step  feeds the books' tokens and takes what comes next into the books: (state, books)
    move  puts the rows of a store into another order, in place: (store, rows)
    """

    def __init__(
        self,
        step: Callable[[State, Books], None],
        move: Callable[[Tensor, Tensor], None],
        cache: Cache,
        books: Books,
        scratch: Any,
    ) -> None:
        self.cache, self.books, self.encoded = cache, books, None
        self._feed, self._move, self._graphs = step, move, Graphs(scratch)
        self.searches, self.width = books.sums.shape
        self.count, self.length = self.searches, 0

    def begin(self, state: State, beams: Beams, end: frozenset[int], never: frozenset[int]) -> None:
        """Searches from a state with a row for each of them, which is used up; `state.logits` give the first tokens."""
        self.count, self.length = len(state), beams.length
        if state.encoded is not None:
            self._hear(state.encoded)
        self.books.rules.set(beams, end, never)
        self.books.begin(self.count)
        sources = torch.arange(self.searches, device=state.logits.device).clamp(max=self.count - 1)
        self.books.take(state.logits.index_select(0, sources))
        self._widen(state.cache, sources)

    def go_on(self, steps: int) -> None:
        assert self.cache.used + steps <= self.cache.size  # graphs would not notice that the cache grew elsewhere
        with many_shapes():
            for _ in range(steps):
                self.cache.begin(1)
                self._graphs.run(self.cache.seen, self._step, self._rehearsal)
                self.cache.used += 1  # the tensor of lengths was counted up inside the graph

    def look(self) -> Look:
        return Look(self.books.going)

    def finished(self) -> list[list[Hypothesis]]:
        return self.books.finished(self.count, self.length)

    def _hear(self, encoded: Encoded) -> None:
        """The first sources stay where they are, others are copied there."""
        if self.encoded is None:
            self.encoded = Encoded(encoded.memory, encoded.mask, self.width)
        else:
            self.encoded.overwrite(encoded)

    def _widen(self, prompts: Cache, sources: Tensor) -> None:
        """Every beam gets its prompt's keys and values."""
        used, shape = prompts.used, (self.searches, self.width)
        for ours, theirs in zip((*self.cache.keys, *self.cache.values), (*prompts.keys, *prompts.values), strict=True):
            ours.unflatten(0, shape)[:, :, :used] = theirs[:, :used].index_select(0, sources)[:, None]
        self.cache.lengths.unflatten(0, shape)[:] = prompts.lengths.index_select(0, sources)[:, None]
        self.cache.used = used

    def _step(self) -> None:
        self._feed(self._state, self.books)
        self._reorder()

    def _rehearsal(self) -> None:
        """What a step counts is undone, and every row stays where it is."""
        changed = (*self.books.changed(), self.cache.lengths)
        before = [tensor.clone() for tensor in changed]
        self._feed(self._state, self.books)
        for tensor, value in zip(changed, before, strict=True):
            tensor.copy_(value)
        torch.arange(len(self.books.rows), out=self.books.rows)
        self._reorder()

    def _reorder(self) -> None:
        """One store after the other, so that there is never more than one copy of one; only what is looked at moves."""
        for store in (*self.cache.keys, *self.cache.values):
            self._move(store[:, : self.cache.seen], self.books.rows)

    @property
    def _state(self) -> State:
        return State(self.cache, self.books.tokens, self.encoded)  # a step reads no scores
