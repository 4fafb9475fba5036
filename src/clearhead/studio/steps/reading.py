"""A matrix that is read in parts: nothing is copied or computed but the cells that are asked for."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Readable:
    """`read(head, rows, columns)` gives a part. `source`: the site or weight that the numbers are from."""

    shape: tuple[int, int]
    read: Callable[[int, slice, slice], Tensor]
    source: str
    heads: int = 1

    @property
    def transposed(self) -> "Readable":
        rows, columns = self.shape
        return Readable(
            (columns, rows), lambda head, some, these: self.read(head, these, some).t(), self.source, self.heads
        )


def of_matrix(matrix: Tensor, source: str) -> Readable:
    """matrix (rows, columns), the same for all heads."""
    return Readable((len(matrix), matrix.shape[1]), lambda _, rows, columns: matrix[rows, columns], source)


def of_heads(matrices: Tensor, source: str, groups: int = 1) -> Readable:
    """matrices (heads, rows, columns); each serves `groups` heads, one behind the other."""
    count, rows, columns = matrices.shape
    return Readable(
        (rows, columns), lambda head, some, these: matrices[head // groups][some, these], source, count * groups
    )
