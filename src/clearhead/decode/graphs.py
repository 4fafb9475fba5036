"""A step as a CUDA graph: what the host would start kernel by kernel, the device goes through by itself.

Whatever a step leaves behind lies in memory of its owner. What it needs on the way comes from memory that all graphs of
an owner share, since they run one after the other.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

WARM = 3
MOST_SHAPES = 256  # each is captured once and compiled once, on purpose: not the accident that torch's limit is for


class Graphs:
    """One graph for each number of slots looked at, captured when it is first needed. On a CPU the step itself runs."""

    def __init__(self, scratch: Any) -> None:
        self.scratch = scratch
        self._replays: dict[int, Callable[[], None]] = {}

    def run(self, seen: int, step: Callable[[], None], rehearsal: Callable[[], None]) -> None:
        """One step that looks at `seen` slots.

        step       computes with the very same tensors at every call, and leaves in them what it found
        rehearsal  the same work without a lasting effect, which compiles the step before it is captured
        """
        if self.scratch is None:
            step()
            return
        if seen not in self._replays:
            self._replays[seen] = _captured(step, rehearsal, self.scratch)
        self._replays[seen]()


def scratch_memory(device: torch.device) -> Any:
    """What graphs compute in between; none where there are no graphs."""
    return torch.cuda.graph_pool_handle() if device.type == "cuda" else None


def many_shapes() -> AbstractContextManager[Any]:
    """While this lasts, torch compiles as often as it is asked to."""
    return torch._dynamo.config.patch(recompile_limit=MOST_SHAPES)


def _captured(step: Callable[[], None], rehearsal: Callable[[], None], scratch: Any) -> Callable[[], None]:
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(WARM):
            rehearsal()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    _forget_workspaces()
    with torch.cuda.graph(graph, pool=scratch):
        step()
    _forget_workspaces()
    return graph.replay


def _forget_workspaces() -> None:
    """cuBLAS keeps 32 MiB for every stream that it ever ran in: the rehearsal's stream needs them no more, and those of
    a graph must be the graph's own scratch, not memory that another graph's end may give back."""
    torch._C._cuda_clearCublasWorkspaces()
