"""`classify`: texts, pairs of texts or pictures to classes with their probabilities, or to one number."""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Union

import torch
from torch import Tensor, nn

from ..data import Picture, Preprocessor, Tokenizer
from ..errors import ClearheadError
from ..models.bert import BERT
from ..models.vit import ViT
from ..runs import preprocessor
from ..runs.labels import Labels, labels
from ..trace import underneath
from .embed import answering, encoder_and_tokenizer

Input = Union[str, tuple[str, str], Picture]  # noqa: UP007  (Picture is a name in quotes)
Progress = Callable[[int], None]

log = logging.getLogger("clearhead")


@dataclass(frozen=True)
class ClassScore:
    name: str
    number: int
    probability: float


@dataclass(frozen=True)
class Verdict:
    """`classes`, the likeliest first; or the `value` of a model that measures; or the `problem` of a broken picture."""

    classes: tuple[ClassScore, ...] = ()
    value: float | None = None
    problem: str | None = None


def classify(
    model: nn.Module,
    inputs: Iterable[Input],
    top: int | None = None,
    *,
    batch: int = 32,
    skip_broken: bool = False,
    progress: Progress = lambda done: None,
) -> list[Verdict]:
    """A verdict for each input, in their order: its `top` classes (all unless given), or a number.

    inputs       for a BERT of task classify texts or (first, second) pairs; for a ViT pictures: paths, Pillow images
                 or arrays. A text of more tokens than the model reads is cut (of a pair the longer), and that is said
    batch        how many inputs of like length run together; it changes the speed, not the verdicts
    skip_broken  a picture that can't be read gets a verdict with its `problem`, where else it is an error
    progress     called after each batch with the number of its inputs

    The probabilities of classes that exclude each other sum to 1; where several may hold at once, as the model's
    folder may say, each has its own. A model of one class measures: its verdict is a value.
    """
    target = underneath(model)
    given = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    if top is not None and (type(top) is not int or top < 1):
        raise ClearheadError(f"at least one class is asked for, not {top!r}")
    if type(batch) is not int or batch < 1:
        raise ClearheadError(f"a batch holds at least one input, not {batch!r}")
    if isinstance(target, ViT):
        return _pictures(target, given, top, batch, skip_broken, progress)
    if not isinstance(target, BERT):
        raise ClearheadError(f"texts are classified by a BERT and pictures by a ViT, not by a {type(target).__name__}")
    if target.config.task != "classify":
        task = f"its task is {target.config.task!r}" if target.config.task else "it has no task"
        raise ClearheadError(f"this BERT has no classes for a text ({task}): give one of task classify")
    return _texts(target, given, top, batch, progress)


def _pictures(
    model: ViT, given: Sequence[Any], top: int | None, batch: int, skip_broken: bool, progress: Progress
) -> list[Verdict]:
    prepare, named = preprocessor(model), labels(model)
    verdicts: list[Verdict] = []
    with answering(model):
        for start in range(0, len(given), batch):
            chosen = given[start : start + batch]
            made = [_pixels(model, prepare, picture, skip_broken) for picture in chosen]
            good = [pixels for pixels in made if isinstance(pixels, Tensor)]
            scores = model(torch.stack(good).to(model.device, model.dtype)) if good else torch.empty(0)
            rows = iter(scores.float().cpu())
            verdicts += [
                Verdict(problem=pixels) if isinstance(pixels, str) else verdict(next(rows), named, top)
                for pixels in made
            ]
            progress(len(chosen))
    return verdicts


def _pixels(model: ViT, prepare: Preprocessor, picture: Picture, skip_broken: bool) -> Tensor | str:
    """(channels, height, width), or why there are none."""
    try:
        pixels = prepare(picture)
    except ClearheadError as problem:
        if not skip_broken:
            raise
        return str(problem)
    channels = model.config.channels
    if channels not in (1, len(pixels)):
        raise ClearheadError(f"the model takes pictures of {channels} channels, not of {len(pixels)}")
    return pixels.mean(0, keepdim=True) if channels == 1 else pixels


def _texts(model: BERT, given: Sequence[Any], top: int | None, batch: int, progress: Progress) -> list[Verdict]:
    model, tok = encoder_and_tokenizer(model)
    named, limit = labels(model), model.config.context
    rows = [text_row(tok, text) for text in given]
    cut = sum(len(ids) > limit for ids, _ in rows)
    if cut:
        log.warning("%d of %d texts were cut at %d tokens", cut, len(rows), limit)
    rows = [shortened_row(ids, segments, limit) for ids, segments in rows]
    longest_first = sorted(range(len(rows)), key=lambda index: -len(rows[index][0]))
    verdicts = [Verdict()] * len(rows)
    with answering(model):
        for start in range(0, len(rows), batch):
            chosen = longest_first[start : start + batch]
            scores = model(*padded_rows([rows[index] for index in chosen], model))
            for index, row in zip(chosen, scores.float().cpu(), strict=True):
                verdicts[index] = verdict(row, named, top)
            progress(len(chosen))
    return verdicts


def text_row(tok: Tokenizer, text: Any) -> tuple[list[int], list[int]]:
    """The numbers of a text or a pair, and to which of the two each belongs."""
    if isinstance(text, str):
        ids = tok.ids(text)
        return ids, [0] * len(ids)
    if isinstance(text, tuple) and len(text) == 2 and all(isinstance(part, str) for part in text):
        return tok.pair(*text)
    raise ClearheadError(f"a BERT classifies texts and pairs of texts, not a {type(text).__name__}")


def shortened_row(ids: list[int], segments: list[int], limit: int) -> tuple[list[int], list[int]]:
    """A row of at most `limit` tokens. Each text keeps the token that ends it ([SEP]); of a pair the longer is cut."""
    over = len(ids) - limit
    if over <= 0:
        return ids, segments
    second = sum(segments)
    first = len(ids) - second
    if second == 0:
        return [*ids[: limit - 1], ids[-1]], segments[:limit]
    sizes = first - 2, second - 1  # without [CLS] and the [SEP] of each
    room = sum(sizes) - over
    if room < 2:
        raise ClearheadError(f"a pair of texts doesn't fit into {limit} tokens")
    half = min(min(sizes), room // 2)
    kept = (half, room - half) if sizes[0] <= sizes[1] else (room - half, half)
    spared = [*range(1 + kept[0]), first - 1, *range(first, first + kept[1]), len(ids) - 1]
    return [ids[place] for place in spared], [segments[place] for place in spared]


def padded_rows(rows: Sequence[tuple[list[int], list[int]]], model: BERT) -> tuple[Tensor, Tensor, Tensor]:
    """ids (B,L), lengths (B,) and segments (B,L) as a BERT takes them."""
    lengths = torch.tensor([len(ids) for ids, _ in rows])
    ids, segments = (
        nn.utils.rnn.pad_sequence([torch.tensor(row[part]) for row in rows], batch_first=True) for part in (0, 1)
    )
    segments = segments.clamp(max=model.config.segments - 1)
    return ids.to(model.device), lengths.to(model.device), segments.to(model.device)


def verdict(scores: Tensor, named: Labels, top: int | None = None) -> Verdict:
    """scores (classes,) as probabilities by name, or as the one number that they are."""
    several = named.problem == "multi_label_classification"
    if named.problem == "regression" and len(scores) > 1:
        raise ClearheadError(f"the model measures {len(scores)} things at once: they are no classes")
    if len(scores) == 1 and not several:
        return Verdict(value=scores.item())
    best = (scores.sigmoid() if several else scores.softmax(-1)).topk(min(top or len(scores), len(scores)))
    return Verdict(
        tuple(
            ClassScore(named.names[number], number, probability)
            for number, probability in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        )
    )
