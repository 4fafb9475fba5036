"""How a picture's rows become the one that the head reads: the first, the mean, or a mean with learned weights."""

from torch import Tensor, nn

from ..trace import tap
from .linear import Linear


class FirstRow(nn.Module):
    """The row of [CLS], which has looked at all others."""

    def forward(self, rows: Tensor) -> Tensor:
        return rows[:, 0]


class MeanOfRows(nn.Module):
    def forward(self, rows: Tensor) -> Tensor:
        return rows.mean(1)


class SequencePooling(nn.Module):
    """CCT's: every row gets a score, the scores' softmax says how much of each goes into the sum."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = Linear(width, 1)

    def forward(self, rows: Tensor) -> Tensor:
        """(B,N,width) -> (B,width)."""
        scores_BN = tap("scores", self.score(rows).squeeze(2))
        weights_BN = tap("weights", scores_BN.softmax(1))
        return (weights_BN.to(rows.dtype).unsqueeze(1) @ rows).squeeze(1)
