"""How alike vectors are: one-hot rows, A B^T / scale, cosine, nearest rows."""

import torch.nn.functional as F
from torch import Tensor


def one_hot(ids: Tensor, size: int) -> Tensor:
    """ids (...) -> (..., size): a row of zeros with a single one. Times a matrix it picks a row of it."""
    return F.one_hot(ids, size).float()


def similarity(a: Tensor, b: Tensor, scale: float = 1.0) -> Tensor:
    """A (n,d), B (m,d) -> A B^T / scale (n,m): every row of A against every row of B."""
    return a @ b.transpose(-2, -1) / scale


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """cos(A,B) = A.B / (|A||B|) for every row of A (n,d) against every row of B (m,d). Zero is like nothing: 0."""
    return similarity(F.normalize(a, dim=-1), F.normalize(b, dim=-1))


def nearest(query: Tensor, rows: Tensor, count: int = 10) -> tuple[Tensor, Tensor]:
    """The `count` rows most like query (d,) by cosine: (similarities, row numbers), best first."""
    return cosine(query[None], rows)[0].topk(min(count, len(rows)))
