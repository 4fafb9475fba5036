"""An update as one CUDA graph: its kernels are recorded once and then started all together.

Small models keep a GPU waiting: Python needs longer to name a kernel than the device to compute it. A graph has no such
wait, but what it holds is fixed: addresses, shapes, and every number that Python knew. So there is one for each `key`,
batches are copied to where the first one lay, and what changes with every update (the rates, the average's share) is a
tensor on the device that is filled before. Random numbers are drawn anew: the generator's seed is read at each start.
"""

import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import ClearheadError
from .aside import leaves

FIRST = 3  # updates of each kind that are computed as usual: they compile, and allocate what the graph relies on

Figures = tuple[dict[str, Tensor], Tensor]


@dataclass
class _Graph:
    graph: torch.cuda.CUDAGraph
    batches: list[Any]
    figures: Figures


class Recorded:
    """`update` (batches, and what their losses are multiplied by -> figures) for batches that are tuples of tensors.

    Call it with `phase`, which names everything else that the update depends on; graphs of a phase that is over are
    dropped. The figures hold until the next call. `seconds` is how long compiling and recording took.
    """

    def __init__(self, update: Callable[[list[Any], Tensor], Figures], device: torch.device) -> None:
        self.update, self.scale = update, torch.zeros((), device=device)
        self.stream, self.pool = torch.cuda.Stream(device), torch.cuda.graph_pool_handle()
        self.phase: Hashable = None
        self.seconds = 0.0
        self.seen: dict[Hashable, int] = {}
        self.graphs: dict[Hashable, _Graph] = {}

    def __call__(self, phase: Hashable, batches: list[Any], scale: float) -> Figures:
        if phase != self.phase:
            self.phase, self.seen, self.graphs = phase, {}, {}
        self.scale.fill_(scale)
        key = tuple(_outline(batches))
        if key in self.graphs:
            for place, new in zip(leaves(self.graphs[key].batches), leaves(batches), strict=True):
                if isinstance(place, Tensor):
                    place.copy_(new)
        else:
            began = time.perf_counter()
            figures = self._prepared(key, batches)
            torch.cuda.synchronize()
            self.seconds += time.perf_counter() - began
            if figures is not None:
                return figures
        self.graphs[key].graph.replay()
        return self.graphs[key].figures

    def _prepared(self, key: Hashable, batches: list[Any]) -> Figures | None:
        """An update as usual, whose figures are its own; or, when there were enough of them, a graph to start."""
        if self.seen.get(key, 0) < FIRST:
            self.seen[key] = self.seen.get(key, 0) + 1
            return self._as_usual(batches)
        self.graphs[key] = self._record(batches)
        return None

    def _as_usual(self, batches: list[Any]) -> Figures:
        """On the stream that will be recorded: autograd remembers where a gradient was made."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            figures = self.update(batches, self.scale)
        torch.cuda.current_stream().wait_stream(self.stream)
        return figures

    def _record(self, batches: list[Any]) -> _Graph:
        kept, graph = _copied(batches), torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
                figures = self.update(kept, self.scale)
        except RuntimeError as problem:
            reason = str(problem).strip().split("\n")[0]
            raise ClearheadError(f"this update can't be recorded as a graph, set graph=false: {reason}") from problem
        return _Graph(graph, kept, figures)


def _outline(batches: list[Any]) -> Iterator[Hashable]:
    """All that a graph holds of a batch: shapes and types of tensors, and whatever is no tensor."""
    for leaf in leaves(batches):
        yield (leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else leaf


def _copied(held: Any) -> Any:
    if isinstance(held, Tensor):
        return held.clone()
    if isinstance(held, tuple) and hasattr(held, "_fields"):
        return type(held)(*map(_copied, held))
    return type(held)(map(_copied, held)) if isinstance(held, tuple | list) else held
