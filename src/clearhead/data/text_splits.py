"""Holding texts back from training, drawn by the letters of each: the same every time, and equal ones together."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import torch

from .kinds import Dataset, Labelled, Parallel, Part, Questions, Running
from .text_files import lot, require

SHARE = 0.1
MANY_DOCUMENTS = 20

P = TypeVar("P", bound=Part)


def with_validation(dataset: Dataset[P], share: float = SHARE, seed: int = 0) -> Dataset[P]:
    """The data set itself if it has a part "valid"; else the same with a share of "train" held out as "valid".

    Labelled texts: a share of each class, but for a class with one text. Parallel ones: by the source. Questions: by
    article. Running text: whole documents if there are twenty or more, else the end of each, cut after a line.
    """
    require(0 < share < 1, f"the share that is held out must lie between 0 and 1, not {share!r}")
    if "valid" in dataset.parts or "train" not in dataset.parts:
        return dataset
    train, valid, how = _split(dataset.parts["train"], share, seed)
    require(len(train) and len(valid), f"{dataset.name} is too small to hold {share:.0%} of it out: give a valid part")
    parts = {"train": train, "valid": valid, **{name: part for name, part in dataset.parts.items() if name != "train"}}
    note = f"{share:.0%} of train held out as valid {how}: {len(train):,} and {len(valid):,}"
    return replace(dataset, parts=parts, notes=(*dataset.notes, note))


def _split(part, share: float, seed: int):
    """What stays, what is held out, and by what rule."""
    if isinstance(part, Labelled):
        scored = part.labels.is_floating_point()
        keys = [*zip(part.texts, part.seconds or [""] * len(part), strict=True)]
        held = _held_out(["\0".join(key) for key in keys], share, seed, None if scored else part.labels.tolist())
        return *_divided(held, lambda rows: _labelled(part, rows)), "by text" if scored else "by text and class"
    if isinstance(part, Parallel):
        pick = _picker(part.sources, part.targets)
        return *_divided(_held_out(part.sources, share, seed), lambda rows: Parallel(*pick(rows))), "by source"
    if isinstance(part, Questions):
        held = _held_out([row.article for row in part.rows], share, seed)
        return *_divided(held, lambda rows: Questions(*_picker(part.rows)(rows))), "by article"
    if len(part) >= MANY_DOCUMENTS:
        pick = _picker(part.documents)
        return *_divided(_held_out(part.documents, share, seed), lambda rows: Running(*pick(rows))), "by document"
    ends = [_end(text, share) for text in part.documents]
    pieces = [(text[:end], text[end:]) for text, end in zip(part.documents, ends, strict=True)]
    train, valid = ([piece for piece in column if piece] for column in zip(*pieces, strict=True))
    return Running(train), Running(valid), "from the end of each text"


def _held_out(keys: Sequence[str], share: float, seed: int, classes: Sequence[int] | None = None) -> list[bool]:
    """For each row whether it is held out. Rows with the same key share their lot, and so their fate in a class."""
    lots = [lot(key, seed) for key in keys]
    groups = classes or [0] * len(keys)
    limits = {}
    for group in set(groups):
        drawn = sorted({lots[row] for row, other in enumerate(groups) if other == group})
        count = min(max(round(len(drawn) * share), 1), len(drawn) - 1)
        limits[group] = drawn[count]
    return [drawn < limits[group] for drawn, group in zip(lots, groups, strict=True)]


def _divided(held: Sequence[bool], pick: Callable[[list[int]], P]) -> tuple[P, P]:
    return pick([row for row, out in enumerate(held) if not out]), pick([row for row, out in enumerate(held) if out])


def _picker(*columns: Sequence) -> Callable[[list[int]], list[list]]:
    return lambda rows: [[column[row] for row in rows] for column in columns]


def _labelled(part: Labelled, rows: list[int]) -> Labelled:
    texts = [part.texts[row] for row in rows]
    seconds = None if part.seconds is None else [part.seconds[row] for row in rows]
    return Labelled(texts, part.labels[torch.tensor(rows, dtype=torch.int64)], seconds)


def _end(text: str, share: float) -> int:
    """Where the held-out end of a text begins: after the last line that ends within the rest."""
    cut = round(len(text) * (1 - share))
    return text.rfind("\n", 0, cut) + 1 or cut
