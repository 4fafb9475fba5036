"""Batches that a GPU makes beside its updates: on a stream of its own, while the update before is still computed.

A recorded update leaves gaps between its many small kernels, and making a batch is many small kernels too.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor


class Aside:
    def __init__(self, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))

    def __call__(self, make: Callable[[], Any]) -> Any:
        """What `make` gives, made beside all that was asked for before; what is asked for next waits for it."""
        with torch.cuda.stream(self.stream):
            made = make()
        now = torch.cuda.current_stream(self.stream.device)
        now.wait_stream(self.stream)
        for leaf in leaves(made):
            if isinstance(leaf, Tensor) and leaf.is_cuda:
                leaf.record_stream(now)  # its memory is not given away before `now` has read it
        return made


def leaves(held: Any) -> Iterator[Any]:
    """All that lists and tuples within each other hold."""
    if isinstance(held, tuple | list):
        for part in held:
            yield from leaves(part)
    else:
        yield held
