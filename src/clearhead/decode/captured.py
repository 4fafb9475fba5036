"""The same steps, compiled, and on a GPU replayed as one CUDA graph: a decoder that pays no Python between kernels.

A graph is bound to the memory it was captured in. Each pool here holds such memory for one number of rows; a state that
comes to it moves in, and the state that lived there before moves out with a copy of its own. There is one graph for
each number of slots looked at, so a short text does not pay for the room that is reserved.
"""

import weakref
from typing import Any

import torch
from torch import Tensor

from ..layers import Cache, Encoded, State
from ..models.base import Model

BUCKET = 128
WARM = 3
MOST_SHAPES = 256  # each is captured once and compiled once, on purpose: not the accident that torch's limit is for


class Captured:
    """A model as the decoding protocol sees it, with a compiled step. Rows that are done stay where they are."""

    fixed_rows = True

    def __init__(self, model: Model, bucket: int = BUCKET, backend: str = "inductor") -> None:
        self.model, self.bucket = model, bucket
        self.takes, self.config, self.device, self.start_token = (
            model.takes,
            model.config,
            model.device,
            model.start_token,
        )
        compute: Any = model.next_logits
        self._next = torch.compile(compute, fullgraph=True, dynamic=False, backend=backend)
        self._pools: dict[tuple[int, ...], _Pool] = {}

    def start(self, inputs: Tensor, lengths: Tensor | None = None, **options: Any) -> State:
        start: Any = self.model.start
        return start(inputs, lengths, bucket=self.bucket, **options)

    @torch.inference_mode()
    def step(self, tokens: Tensor, state: State) -> Tensor:
        step: Any = self.model.step
        return step(tokens, state, self._replayed if tokens.is_cuda else self._next)

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        return self.model(*inputs, **options)

    def _replayed(self, tokens: Tensor, state: State) -> Tensor:
        shape = (len(tokens), state.cache.size, *(() if state.encoded is None else _shape(state.encoded)))
        if shape not in self._pools:
            self._pools[shape] = _Pool(tokens, state)
        return self._pools[shape].run(tokens, state, self._next)


class _Pool:
    """Memory for one shape of state, and the graphs captured in it."""

    def __init__(self, tokens: Tensor, state: State) -> None:
        cache, encoded = state.cache, state.encoded
        self.tokens = tokens.clone()
        self.cache = Cache(_copies(cache.keys), _copies(cache.values), cache.lengths.clone(), bucket=cache.bucket)
        self.encoded = None if encoded is None else _copied(encoded)
        self.graphs: dict[int, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self.tenant: weakref.ref[Cache] | None = None
        self.source = encoded

    def run(self, tokens: Tensor, state: State, compute: Any) -> Tensor:
        self._move_in(state)
        self.tokens.copy_(tokens)
        seen = self.cache.seen = state.cache.seen
        if seen not in self.graphs:
            self.graphs[seen] = self._capture(compute)
        graph, logits = self.graphs[seen]
        graph.replay()
        return logits.clone()

    def _move_in(self, state: State) -> None:
        if state.encoded is not self.source and state.encoded is not None and self.encoded is not None:
            for ours, theirs in zip(_tensors(self.encoded), _tensors(state.encoded), strict=True):
                ours.copy_(theirs)
            self.source = state.encoded
        before = None if self.tenant is None else self.tenant()
        if before is state.cache:
            return
        if before is not None:
            before.keys, before.values = _copies(before.keys), _copies(before.values)
            before.lengths = before.lengths.clone()
        cache = state.cache
        pairs = zip((*self.cache.keys, *self.cache.values), (*cache.keys, *cache.values), strict=True)
        for ours, theirs in pairs:
            ours.copy_(theirs)
        self.cache.lengths.copy_(cache.lengths)
        cache.keys, cache.values, cache.lengths = self.cache.keys, self.cache.values, self.cache.lengths
        self.tenant = weakref.ref(cache)

    def _capture(self, compute: Any) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        """A few runs first, which compile; a run writes the same slots each time, so nothing is spoilt by them."""
        state = State(self.cache, self.tokens.new_empty(0), self.encoded)
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside), torch._dynamo.config.patch(recompile_limit=MOST_SHAPES):
            for _ in range(WARM):
                compute(self.tokens, state)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = compute(self.tokens, state)
        return graph, logits


def _shape(encoded: Encoded) -> tuple[int, ...]:
    key, value = encoded.memory[0]
    return (*key.shape, *value.shape, encoded.beams, int(encoded.mask is not None))


def _tensors(encoded: Encoded) -> list[Tensor]:
    pairs = [tensor for pair in encoded.memory for tensor in pair]
    return pairs if encoded.mask is None else [*pairs, encoded.mask]


def _copied(encoded: Encoded) -> Encoded:
    memory = [(key.clone(), value.clone()) for key, value in encoded.memory]
    return Encoded(memory, None if encoded.mask is None else encoded.mask.clone(), encoded.beams)


def _copies(tensors: list[Tensor]) -> list[Tensor]:
    return [tensor.clone() for tensor in tensors]
