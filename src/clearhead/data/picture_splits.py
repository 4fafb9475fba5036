"""Holding pictures back from training: stratified by class, and the same every time for the same seed."""

from dataclasses import replace

import torch
from torch import Tensor

from ..errors import ClearheadError
from .kinds import Dataset, Pictures


def chosen(part: Pictures, rows: Tensor) -> Pictures:
    """Some of the pictures of a part, in this order."""
    if isinstance(part.pixels, Tensor):
        return Pictures(part.pixels[rows], part.labels[rows])
    return Pictures([part.pixels[row] for row in rows.tolist()], part.labels[rows])


def stratified(labels: Tensor, share: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """The rows that stay and the rows that are held back, each in their old order.

    Of a class of n pictures round(n * share) are held back, at least one and at most n - 1: a lone picture stays.
    """
    if not 0 < share < 1:
        raise ClearheadError(f"the share that is held back must lie between 0 and 1, not {share!r}")
    generator = torch.Generator().manual_seed(seed)
    held = torch.zeros(len(labels), dtype=torch.bool)
    for number in labels.unique().tolist():
        rows = (labels == number).nonzero().flatten()
        count = min(max(round(len(rows) * share), 1), len(rows) - 1)
        held[rows[torch.randperm(len(rows), generator=generator)[:count]]] = True
    return (~held).nonzero().flatten(), held.nonzero().flatten()


def with_validation(dataset: Dataset[Pictures], share: float = 0.1, seed: int = 0) -> Dataset[Pictures]:
    """The data set itself if it has a part "valid"; else the same with a share of "train" held back as "valid"."""
    if "valid" in dataset.parts:
        return dataset
    train = dataset.parts["train"]
    stay, held = stratified(train.labels, share, seed)
    rest = {name: part for name, part in dataset.parts.items() if name != "train"}
    return replace(dataset, parts={"train": chosen(train, stay), "valid": chosen(train, held), **rest})
