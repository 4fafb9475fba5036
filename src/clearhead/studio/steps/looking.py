"""One attention layer of a pass: where it stands, who looks, and at whom."""

from dataclasses import dataclass

from ...layers import CrossAttention, SelfAttention
from ..schema import Matrix
from .making import Of

Layer = SelfAttention | CrossAttention


@dataclass(frozen=True)
class Looking:
    """One attention layer: its part of the table, its module's name, who looks and who is looked at.

    x       what queries are made from; memory: what keys and values are made from
    bias    the key of the matrix that is added to the scores
    """

    part: str
    path: str
    x: Matrix
    memory: Matrix
    bias: str | None = None

    @property
    def rows(self) -> Of:
        return self.x.rows.of

    @property
    def keys(self) -> Of:
        return self.memory.rows.of

    @property
    def crossing(self) -> bool:
        return self.x.key != self.memory.key
