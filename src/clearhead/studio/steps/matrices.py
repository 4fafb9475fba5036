"""Every matrix of a pass by its key, as float32 (rows, columns).

site:NAME      what was recorded, of the first input of the batch; token numbers are one column, a picture's channels
               stand one below the other
weight:NAME    see weights.py
derived:NAME   see derived.py
A `.T` behind a key turns the matrix round. Nothing is copied or computed beyond the part that is asked for.
"""

import math

import torch
from torch import Tensor

from ...errors import ClearheadError, near, quoted
from ...layers import CrossAttention, SelfAttention
from ...models import Model
from ...trace import Trace
from .derived import derived
from .reading import Readable, of_heads, of_matrix
from .weights import Weights

ALL = slice(None)
CHUNK = 1 << 22  # cells that `range` looks at at a time


class Matrices:
    """The matrices of one pass. Answers are remembered where they are cheap to keep: ranges, shapes, small tables."""

    def __init__(self, model: Model, trace: Trace) -> None:
        self.model, self.trace, self.weights = model, trace, Weights(model)
        self._found: dict[str, Readable] = {}
        self._ranges: dict[tuple[str, int], tuple[float, float] | None] = {}

    def get(self, key: str, head: int = 0, rows: slice = ALL, columns: slice = ALL) -> Tensor:
        """The matrix, or a part of it, on the CPU. A key that is the same for all heads takes no notice of `head`."""
        found = self.find(key)
        if not 0 <= head < found.heads and found.heads > 1:
            raise ClearheadError(f"{quoted(key)} has {found.heads} heads, from 0: there is no head {head}")
        with torch.no_grad():
            part = found.read(head, rows, columns)
        if part.is_meta:
            raise ClearheadError(f"site '{found.source}' was left out of the trace to save memory: keep more bytes")
        return part.detach().to("cpu", torch.float32)

    def range(self, key: str, head: int = 0) -> tuple[float, float] | None:
        """The smallest and the largest finite value; None where there is none."""
        key = key.removesuffix(".T")  # the same numbers, and row by row they are read faster
        at = key, head if self.find(key).heads > 1 else 0
        if at not in self._ranges:
            self._ranges[at] = self._range(*at)
        return self._ranges[at]

    def shape(self, key: str) -> tuple[int, int]:
        return self.find(key).shape

    def find(self, key: str) -> Readable:
        """The matrix behind a key, not read yet; an unknown key is refused in one line."""
        if key not in self._found:
            try:
                self._found[key] = self._resolve(key)
            except (AttributeError, KeyError) as missing:
                raise ClearheadError(f"there is no matrix {quoted(key)}: {quoted(missing.args[0])}") from None
        return self._found[key]

    def _resolve(self, key: str) -> Readable:
        kind, _, name = key.partition(":")
        if name.endswith(".T"):
            return self.find(key.removesuffix(".T")).transposed
        if kind == "site":
            return self._site(name)
        if kind == "weight":
            return self.weights.find(name)
        if kind == "derived":
            return derived(self, name)
        raise ClearheadError(f"a key begins with site:, weight: or derived:, and {quoted(key)} does not")

    def _site(self, site: str) -> Readable:
        value, last = self._recorded(site), site.rpartition(".")[2]
        if last == "ids":
            return of_matrix(value[0][:, None], site)
        if last == "image":
            return of_matrix(value[0].flatten(0, 1), site)
        if value.ndim == 4:
            return of_heads(value[0], site, self._groups(site, value.shape[1]))
        if value.ndim == 2:
            return of_matrix(value if last == "positions" else value[:1], site)
        return of_matrix(value[0], site)

    def _recorded(self, site: str) -> Tensor:
        """The value; where it was left out, a tensor that has a shape and no numbers."""
        if site in self.trace.left_out:
            return torch.empty(self.trace.left_out[site], device="meta")
        if site not in self.trace.values:
            raise ClearheadError(f"site {quoted(site)} was not recorded{near(site, self.trace.values)}")
        return self.trace.values[site]

    def _groups(self, site: str, count: int) -> int:
        """How many heads look at the same keys and values."""
        attention = self.model.get_submodule(site.rpartition(".")[0])
        assert isinstance(attention, SelfAttention | CrossAttention)
        return attention.heads.count // count

    def _range(self, key: str, head: int) -> tuple[float, float] | None:
        rows, columns = self.shape(key)
        step = max(1, CHUNK // max(1, columns))
        parts = (self.get(key, head, slice(start, start + step)) for start in range(0, rows, step))
        ends = [end for part in parts for end in _ends(part)]
        return (min(ends), max(ends)) if ends else None


def _ends(values: Tensor) -> list[float]:
    """The smallest and largest finite value, or nothing; values are only sorted out where some are not finite."""
    if not values.numel():
        return []
    ends = [end.item() for end in torch.aminmax(values)]
    if all(map(math.isfinite, ends)):
        return ends
    finite = values[torch.isfinite(values)]
    return [end.item() for end in torch.aminmax(finite)] if finite.numel() else []
