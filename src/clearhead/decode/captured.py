"""The same steps, compiled, and on a GPU replayed as one CUDA graph: a decoder that pays no Python between kernels.

A step here feeds a token, scores the next one and takes the best of it: `ahead` goes on with that by itself, as often
as it is told to, and the host looks at what was written when it likes. `step` is one of them whose scores are read.
`follow` does the same for beam searches, whose books are kept on the device (beam_books.py).

A graph is bound to the memory it was captured in. Each pool here holds such memory for a number of rows; a state that
comes to it moves in, with as many rows or fewer, and the state that lived there before moves out with a copy of its
own. There is one graph for each number of slots looked at, so a short text does not pay for the room that is reserved.
"""

import weakref
from typing import Any

import torch
from torch import Tensor

from ..layers import Cache, Encoded, State
from ..models.base import Model
from .beam_books import Books
from .beam_pool import BeamPool
from .beam_rules import Beams
from .graphs import Graphs, many_shapes, scratch_memory
from .protocol import Burst, continues

BUCKET = 96
LONGEST_BURST = 64
# For sums instead of products (layers/linear.py). Not "triton.enable_pdl": the compiler's kernels would then begin
# before an operator of ours has ended, since they only wait for what the compiler itself has written.
ONE_ROW: dict[str, Any] = {"coordinate_descent_tuning": True}


class Captured:
    """A model as the decoding protocol sees it, with a compiled step. It can write ahead, and follow beams."""

    def __init__(self, model: Model, bucket: int = BUCKET, backend: str = "inductor") -> None:
        self.model, self.bucket = model, bucket
        self.takes, self.config, self.device = model.takes, model.config, model.device
        self.start_token = model.start_token
        options = ONE_ROW if backend == "inductor" and model.device.type == "cuda" else None
        self._one, self._many = (
            torch.compile(self._written, fullgraph=True, dynamic=False, backend=backend, options=chosen)
            for chosen in (options, None)
        )
        self._search = torch.compile(self._followed, fullgraph=True, dynamic=False, backend=backend)
        self._move = torch.compile(_moved, fullgraph=True, dynamic=False, backend=backend)
        self._scratch = scratch_memory(model.device)
        self._pools: dict[tuple[int, ...], _Pool] = {}
        self._beam_pools: dict[tuple[int, ...], BeamPool] = {}

    def start(self, inputs: Tensor, lengths: Tensor | None = None, **options: Any) -> State:
        """Where a pool stands empty, prompts are read straight into its memory."""
        start: Any = self.model.start
        if continues(self):
            options["cache"] = self._vacant(len(inputs), options.get("room"))
        return start(inputs, lengths, bucket=self.bucket, **options)

    @torch.inference_mode()
    def step(self, tokens: Tensor, state: State) -> Tensor:
        self._feed(tokens, state, 1, frozenset())
        return state.logits

    @torch.inference_mode()
    def ahead(self, tokens: Tensor, state: State, count: int, never: frozenset[int] = frozenset()) -> Burst:
        """Feed `tokens` (B,) and then what is written; as many steps as wanted, or as the state's room allows.

        What was written last is not fed: it may be the end.
        """
        room = state.cache.size - state.cache.used
        return self._feed(tokens, state, max(1, min(count, room, LONGEST_BURST)), never).burst(len(tokens))

    @torch.inference_mode()
    def follow(self, state: State, beams: Beams, end: frozenset[int], never: frozenset[int]) -> BeamPool:
        """Beam searches from a state with a row for each, which is used up. They are over when the next ones begin."""
        room = state.cache.used + beams.length - 1  # what is written last is not fed
        self.model.check_room(room - 1)  # pyright: ignore[reportCallIssue]
        pool = self._beam_pool(state, beams.count, beams.candidates(len(end)), room)
        pool.begin(state, beams, end, never)
        return pool

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        return self.model(*inputs, **options)

    def _feed(self, tokens: Tensor, state: State, count: int, never: frozenset[int]) -> "_Pool":
        """So many steps one behind the other, none of which waits for the host."""
        cache, pool = state.cache, None
        with many_shapes():
            for _ in range(count):
                self.model.check_room(cache.used)  # pyright: ignore[reportCallIssue]
                cache.begin(1)
                if pool is None:  # the first step may have made more room
                    pool = self._pool(tokens, state)
                    pool.begin(tokens, state, never)
                pool.run(cache.seen)
                cache.used += 1  # the tensor of lengths was counted up inside the graph
        assert pool is not None
        state.logits = pool.scores[: len(tokens)].clone()
        return pool

    def _pool(self, tokens: Tensor, state: State) -> "_Pool":
        """The pool for such states; a state with more rows than it holds gets a larger one in its place."""
        shape = (state.cache.size, *(() if state.encoded is None else state.encoded.shape))
        pool = self._pools.get(shape)
        if pool is None or len(pool.tokens) < len(tokens):
            if pool is not None:
                pool.move_out()
            compute = self._one if len(tokens) == 1 else self._many
            pool = self._pools[shape] = _Pool(tokens, state, compute, self._scratch)
        return pool

    def _beam_pool(self, state: State, width: int, candidates: int, room: int) -> BeamPool:
        """The pool for such searches; for more of them than it holds it gives way to a larger one."""
        shape = (self._empty(0, room).size, width, candidates, *(() if state.encoded is None else state.encoded.shape))
        pool = self._beam_pools.get(shape)
        if pool is None or pool.searches < len(state):
            del pool
            self._beam_pools.pop(shape, None)  # first: there is never memory for both
            cache, vocab = self._empty(len(state) * width, room), state.logits.shape[-1]
            books = Books.blank(len(state), width, cache.size, candidates, vocab, state.logits.device)
            pool = self._beam_pools[shape] = BeamPool(self._search, self._move, cache, books, self._scratch)
        return pool

    def _empty(self, rows: int, room: int | None) -> Cache:
        return self.model.new_cache(rows, room, self.bucket)  # pyright: ignore[reportCallIssue]

    def _vacant(self, rows: int, room: int | None) -> Cache | None:
        pool = self._pools.get((self._empty(0, room).size,))
        return None if pool is None else pool.lent(rows)

    def _written(
        self, tokens: Tensor, state: State, barred: Tensor, written: Tensor, chances: Tensor, place: Tensor
    ) -> None:
        """One step: a token joins each row, the best of what may come next is noted and stands ready to be fed."""
        logits: Tensor = self.model.next_logits(tokens, state)  # pyright: ignore[reportCallIssue]
        scores = logits.float()
        best = first_best(scores.masked_fill(barred, -torch.inf))
        chance = scores.gather(-1, best[:, None])[:, 0] - scores.logsumexp(-1)
        written.index_copy_(0, place, best[None])
        chances.index_copy_(0, place, chance[None])
        tokens.copy_(best)
        state.cache.lengths.add_(1)
        state.logits.copy_(logits)
        place.add_(1)

    def _followed(self, state: State, books: Books) -> None:
        """One step of beam searches: what went on is fed, and what may come next is taken into the books."""
        books.take(self.model.next_logits(books.tokens, state))  # pyright: ignore[reportCallIssue]
        state.cache.lengths.add_(1)  # a search's beams are equally long: lengths need not move with the rows


class _Pool:
    """Memory for one shape of state, and the graphs captured in it. The first state's own memory becomes the pool's.

    tokens           (R,) what is fed next
    scores           (R,V) of what may come behind it: one memory for all graphs
    written, chances (LONGEST_BURST, R) what a burst wrote, and the logarithms of its probabilities
    place            (1,) where in these the next step writes
    barred           (V,) whether a token is never written
    """

    def __init__(self, tokens: Tensor, state: State, compute: Any, scratch: Any) -> None:
        cache, encoded = state.cache, state.encoded
        self.tokens, self.scores = tokens.clone(), torch.empty_like(state.logits)
        self.cache = Cache([*cache.keys], [*cache.values], cache.lengths, bucket=cache.bucket)
        self.encoded = None if encoded is None else encoded.copied()
        self.written = tokens.new_zeros(LONGEST_BURST, len(tokens))
        self.chances = torch.zeros_like(self.written, dtype=torch.float32)
        self.place = tokens.new_zeros(1)
        self.barred = torch.zeros_like(state.logits[0], dtype=torch.bool)
        self.never: frozenset[int] = frozenset()
        self.steps = 0
        self.compute, self.graphs = compute, Graphs(scratch)
        self.tenant: weakref.ref[Cache] | None = weakref.ref(cache)
        self.source: weakref.ref[Encoded] | None = None if encoded is None else weakref.ref(encoded)

    def begin(self, tokens: Tensor, state: State, never: frozenset[int]) -> None:
        """Make ready for steps of the state's rows; what the rows behind them compute is nobody's."""
        self._move_in(state)
        self.tokens[: len(tokens)].copy_(tokens)
        if len(tokens) < len(self.tokens):
            self.cache.lengths[len(tokens) :] = 0  # they count up too, and must stay inside
        self.place.zero_()
        self.steps = 0
        if never != self.never:
            self.barred.zero_()
            self.barred[sorted(never)] = True
            self.never = never

    def run(self, seen: int) -> None:
        self.cache.seen, self.steps = seen, self.steps + 1
        self.graphs.run(seen, self._step, self._rehearsal)

    def burst(self, rows: int) -> Burst:
        """What was written since `begin`; the next burst may be under way before this one is read."""
        return Burst(self.written[: self.steps, :rows].clone(), self.chances[: self.steps, :rows].clone())

    def lent(self, rows: int) -> Cache | None:
        """An empty cache in this memory, where nobody lives and there are as many rows."""
        if rows > len(self.tokens) or (self.tenant is not None and self.tenant() is not None):
            return None
        keys, values = ([store[:rows] for store in side] for side in (self.cache.keys, self.cache.values))
        cache = Cache(keys, values, self.cache.lengths[:rows].zero_(), bucket=self.cache.bucket)
        self.tenant = weakref.ref(cache)
        return cache

    def _move_in(self, state: State) -> None:
        heard = None if self.source is None else self.source()
        if state.encoded is not None and self.encoded is not None and state.encoded is not heard:
            self.encoded.overwrite(state.encoded)
            self.source = weakref.ref(state.encoded)
        if self.tenant is not None and self.tenant() is state.cache:
            return
        self.move_out()
        cache, rows = state.cache, len(state.cache.lengths)
        for ours, theirs in zip(self._stores(), (*cache.keys, *cache.values, cache.lengths), strict=True):
            ours[:rows].copy_(theirs)
        cache.keys, cache.values = ([store[:rows] for store in side] for side in (self.cache.keys, self.cache.values))
        cache.lengths = self.cache.lengths[:rows]
        self.tenant = weakref.ref(cache)

    def move_out(self) -> None:
        """The state that lives here takes a copy of its own with it."""
        before = None if self.tenant is None else self.tenant()
        if before is not None:
            before.keys, before.values = _copies(before.keys), _copies(before.values)
            before.lengths = before.lengths.clone()
        self.tenant = None

    def _stores(self) -> tuple[Tensor, ...]:
        return (*self.cache.keys, *self.cache.values, self.cache.lengths)

    def _step(self) -> None:
        state = State(self.cache, self.scores, self.encoded)
        self.compute(self.tokens, state, self.barred, self.written, self.chances, self.place)

    def _rehearsal(self) -> None:
        """It writes the same slots as the true step, and what it counts is undone."""
        counted = (self.tokens, self.cache.lengths, self.place)
        before = [tensor.clone() for tensor in counted]
        self._step()
        for tensor, value in zip(counted, before, strict=True):
            tensor.copy_(value)


def first_best(scores: Tensor) -> Tensor:
    """(R,V) -> (R,): the first of the largest, as argmax gives it (but 0 is larger than -0).

    A compiler spreads the search for a largest number over a whole GPU, where it leaves argmax to as many programs as
    there are rows. So each score becomes the upper half of a whole number, and its place from the end the lower half.
    """
    last = scores.shape[-1] - 1
    bits = scores.view(torch.int32)
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # the bits of a negative float count backwards
    from_end = last - torch.arange(last + 1, device=scores.device)
    return last - (((ordered.long() << 32) | from_end).amax(-1) & 0xFFFFFFFF)


def _moved(store: Tensor, rows: Tensor) -> None:
    store.copy_(store.index_select(0, rows))


def _copies(tensors: list[Tensor]) -> list[Tensor]:
    return [tensor.clone() for tensor in tensors]
