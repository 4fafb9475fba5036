"""Which distances share one number of a T5's position bias, by the function that the model itself counts with."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import torch

from ...layers import RelativeBias
from ...ops.positions import relative_buckets


@dataclass(frozen=True)
class Bucket:
    """A row of the table and the distances that it serves, from first to last; `last` is None where there is no end."""

    number: int
    first: int
    last: int | None

    @property
    def alone(self) -> bool:
        return self.first == self.last

    def __str__(self) -> str:
        if self.last is None:
            return f"{self.number}: {self.first} and more"
        return f"{self.number}: {self.first}" if self.alone else f"{self.number}: {self.first}–{self.last}"


def buckets(table: RelativeBias, behind: bool) -> list[Bucket]:
    """The buckets of keys behind their query, from a distance of 1 on; or of those before it, from 0 on."""
    distances = torch.arange(int(behind), table.max_distance + 2)  # from max_distance on all are in one
    numbers = relative_buckets(
        distances if behind else -distances,
        buckets=table.buckets,
        max_distance=table.max_distance,
        bidirectional=table.bidirectional,
    )
    found, sizes = torch.unique_consecutive(numbers, return_counts=True)
    ends = (sizes.cumsum(0) + int(behind)).tolist()
    starts = [int(behind), *ends[:-1]]
    lasts = [end - 1 for end in ends[:-1]] + [None]
    return [Bucket(*one) for one in zip(found.tolist(), starts, lasts, strict=True)]


def in_words(table: RelativeBias) -> str:
    """Every bucket of a table, in two sentences."""
    before, behind = (_listed(buckets(table, side)) for side in (False, True))
    return f"Buckets of keys before the query: {before}. Behind it: {behind}."


def _listed(all_: Sequence[Bucket]) -> str:
    """The near ones, of one distance each, are told together; those that share one, one by one."""
    near = list(takewhile(lambda bucket: bucket.alone, all_))
    if len(near) < 2:
        return ", ".join(map(str, all_))
    first, last = near[0], near[-1]
    told = f"{first.number} to {last.number} for {first.first} to {last.first}, a distance each"
    return f"{told}; {', '.join(map(str, all_[len(near) :]))}"
