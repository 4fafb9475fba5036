"""The same steps, compiled, and on a GPU replayed as one CUDA graph: a decoder that pays no Python between kernels.

A graph is bound to the memory it was captured in. Each pool here holds such memory for a number of rows; a state that
comes to it moves in, with as many rows or fewer, and the state that lived there before moves out with a copy of its
own. There is one graph for each number of slots looked at, so a short text does not pay for the room that is reserved.
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..layers import Cache, Encoded, State
from ..models.base import Model

BUCKET = 128
WARM = 3
MOST_SHAPES = 256  # each is captured once and compiled once, on purpose: not the accident that torch's limit is for


class Captured:
    """A model as the decoding protocol sees it, with a compiled step."""

    def __init__(self, model: Model, bucket: int = BUCKET, backend: str = "inductor") -> None:
        self.model, self.bucket = model, bucket
        self.takes, self.config, self.device = model.takes, model.config, model.device
        self.start_token = model.start_token
        compute: Any = model.next_logits
        self._compute = torch.compile(compute, fullgraph=True, dynamic=False, backend=backend)
        self._pools: dict[tuple[int, ...], _Pool] = {}

    def start(self, inputs: Tensor, lengths: Tensor | None = None, **options: Any) -> State:
        start: Any = self.model.start
        return start(inputs, lengths, bucket=self.bucket, **options)

    @torch.inference_mode()
    def step(self, tokens: Tensor, state: State) -> Tensor:
        step: Any = self.model.step
        return step(tokens, state, self._pooled)

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        return self.model(*inputs, **options)

    def _pooled(self, tokens: Tensor, state: State) -> Tensor:
        """In the pool for such states; a state with more rows than it holds gets a larger one in its place."""
        shape = (state.cache.size, *(() if state.encoded is None else _shape(state.encoded)))
        pool = self._pools.get(shape)
        if pool is None or len(pool.tokens) < len(tokens):
            if pool is not None:
                pool.move_out()
            pool = self._pools[shape] = _Pool(tokens, state)
        with torch._dynamo.config.patch(recompile_limit=MOST_SHAPES):
            return pool.run(tokens, state, self._compute)


class _Pool:
    """Memory for one shape of state, and the graphs captured in it."""

    def __init__(self, tokens: Tensor, state: State) -> None:
        cache, encoded = state.cache, state.encoded
        self.tokens = tokens.clone()
        self.cache = Cache(_copies(cache.keys), _copies(cache.values), cache.lengths.clone(), bucket=cache.bucket)
        self.encoded = None if encoded is None else _copied(encoded)
        self.graphs: dict[int, Callable[[], Tensor]] = {}
        self.tenant: weakref.ref[Cache] | None = None
        self.source: Encoded | None = None

    def run(self, tokens: Tensor, state: State, compute: Any) -> Tensor:
        """One step of the state's rows; what the rows behind them compute is nobody's."""
        self._move_in(state)
        self.tokens[: len(tokens)].copy_(tokens)
        seen = self.cache.seen = state.cache.seen
        if seen not in self.graphs:
            self.graphs[seen] = self._captured(compute)
        return self.graphs[seen]()[: len(tokens)].clone()

    def _move_in(self, state: State) -> None:
        if state.encoded is not None and self.encoded is not None and state.encoded is not self.source:
            for ours, theirs in zip(_tensors(self.encoded), _tensors(state.encoded), strict=True):
                ours[: len(theirs)].copy_(theirs)
            self.source = state.encoded
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

    def _captured(self, compute: Any) -> Callable[[], Tensor]:
        """A few runs first, which compile; a run writes the same slots each time, so nothing is spoilt by them."""
        state = State(self.cache, self.tokens.new_empty(0), self.encoded)
        if not self.tokens.is_cuda:
            return lambda: compute(self.tokens, state)
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM):
                compute(self.tokens, state)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = compute(self.tokens, state)

        def replayed() -> Tensor:
            graph.replay()
            return logits

        return replayed


def _shape(encoded: Encoded) -> tuple[int, ...]:
    """All but the number of sources."""
    key, value = encoded.memory[0]
    return (*key.shape[1:], *value.shape[1:], encoded.beams, int(encoded.mask is not None))


def _tensors(encoded: Encoded) -> list[Tensor]:
    pairs = [tensor for pair in encoded.memory for tensor in pair]
    return pairs if encoded.mask is None else [*pairs, encoded.mask]


def _copied(encoded: Encoded) -> Encoded:
    memory = [(key.clone(), value.clone()) for key, value in encoded.memory]
    return Encoded(memory, None if encoded.mask is None else encoded.mask.clone(), encoded.beams)


def _copies(tensors: list[Tensor]) -> list[Tensor]:
    return [tensor.clone() for tensor in tensors]
