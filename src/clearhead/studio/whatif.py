"""Two kept passes side by side: what they answer, and how far the residual stream of the one is from the other's."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..analyse import residual_stream
from ..analyse.answers import asked_scores, best, probabilities_of
from ..errors import ClearheadError
from ..models.bert import BERT
from ..ops import cosine
from ..runs.labels import class_count, labels
from .attention_views import points
from .schema import Chance, Prediction
from .seen import Seen, answers_with_tokens
from .whatif_schema import Compared, NamedOutcome, OutcomeChange, Side, StreamMoved

MOST = 50  # outcomes of each side
ROUNDED = 1e-12


@dataclass(frozen=True)
class Said:
    """What a pass says at one place: scores (numbers,), and how probable each is where that makes sense."""

    place: int | None
    scores: Tensor
    chances: Tensor | None


def said(seen: Seen, place: int | None) -> Said:
    """Of a BERT without a task it is the mean of its tokens' vectors: there is nothing to choose from."""
    if isinstance(seen.model, BERT) and seen.model.config.task is None:
        return Said(None, _stream(seen, "encoder")[-1].mean(0), None)
    asked = seen.asked(place)
    scores = asked_scores(seen.scores, asked, 0).float()
    return Said(asked, scores, probabilities_of(seen.model, scores))


def checked_count(count: int) -> int:
    if not 1 <= count <= MOST:
        raise ClearheadError(f"1 to {MOST} outcomes are compared, not {count}")
    return count


def outcomes(seen: Seen, before: Said, after: Said, count: int) -> list[OutcomeChange]:
    """The most probable of either, by what they were before."""
    if before.chances is None or after.chances is None:
        return []
    numbers = {number for chances in (before.chances, after.chances) for number in best(chances, count)[0]}
    pairs = {number: (before.chances[number].item(), after.chances[number].item()) for number in numbers}
    return [
        OutcomeChange(id=number, text=seen.name(number), before=was, after=now, difference=now - was)
        for number, (was, now) in sorted(pairs.items(), key=lambda pair: (-pair[1][0], pair[0]))
    ]


def alike(before: Said, after: Said) -> float:
    return cosine(before.scores[None], after.scores[None]).item()


def moved(before: Seen, after: Seen, place: int | None) -> list[StreamMoved]:
    """For each stack, from what comes into its first block to what comes out of its last."""
    stacks = ["encoder", "decoder"] if "target" in before.model.takes else [None]
    return [_moved(before, after, stack, place if stack != "encoder" else None) for stack in stacks]


def _moved(before: Seen, after: Seen, stack: str | None, place: int | None) -> StreamMoved:
    pairs = list(zip(_stream(before, stack), _stream(after, stack), strict=True))
    at = [] if place is None else [(was[place : place + 1], now[place : place + 1]) for was, now in pairs]
    return StreamMoved(
        stack=stack or ("decoder" if hasattr(before.model, "decoder") else "encoder"),
        points=points(len(pairs)),
        cosine=[_cosine(*pair) for pair in pairs],
        relative=[_relative(*pair) for pair in pairs],
        at_cosine=None if place is None else [_cosine(*pair) for pair in at],
        at_relative=None if place is None else [_relative(*pair) for pair in at],
    )


def _stream(seen: Seen, stack: str | None) -> list[Tensor]:
    """(L,width) at every point."""
    return [value[0].double() for value in residual_stream(seen.model, seen.kept.trace, stack)]


def _cosine(was: Tensor, now: Tensor) -> float:
    return torch.cosine_similarity(was, now, dim=-1).mean().item()


def _relative(was: Tensor, now: Tensor) -> float:
    return ((now - was).norm() / was.norm().clamp(min=ROUNDED)).item()


# ------------------------------------------------------------------------------------------- two models


def compared(left: Seen, right: Seen, place: int | None, count: int, dropped: list[str]) -> Compared:
    """Outcomes of two models are the same where they have the same name."""
    sides = left, right
    say = [said(side, place) for side in sides]
    if any(one.chances is None for one in say):
        raise ClearheadError("the scores of one of the two are no probabilities: there are no outcomes to compare")
    numbered = [numbers_of(side) for side in sides]
    spelt = [{number: name for name, number in names.items()} for names in numbered]
    tops = [best(one.chances, count)[0] for one in say]  # pyright: ignore[reportArgumentType]
    names = dict.fromkeys(names_[n] for names_, top in zip(spelt, tops, strict=True) for n in top if n in names_)
    rows = [_named(name, sides, say, numbered) for name in names]
    return Compared(
        left=_side(left, say[0], tops[0]),
        right=_side(right, say[1], tops[1]),
        same_names=numbered[0] == numbered[1],
        outcomes=sorted(rows, key=lambda row: -max(row.left or 0.0, row.right or 0.0)),
        dropped=dropped,
    )


def numbers_of(seen: Seen) -> dict[str, int]:
    """Every outcome by its name: the vocabulary, the classes."""
    if answers_with_tokens(seen.model):
        assert seen.kept.ready.reads is not None
        size = seen.scores.shape[-1]
        return {name: number for number, name in seen.kept.ready.reads.spelt.items() if number < size}
    if class_count(seen.model.config) is not None:
        return {name: number for number, name in enumerate(labels(seen.model).names)}
    return {seen.name(number): number for number in range(seen.scores.shape[-1])}


def _named(name: str, sides: tuple[Seen, Seen], say: list[Said], numbered: list[dict[str, int]]) -> NamedOutcome:
    at = [
        one.chances[names[name]].item() if one.chances is not None and name in names else None
        for one, names in zip(say, numbered, strict=True)
    ]
    shown = next(side.name(names[name]) for side, names in zip(sides, numbered, strict=True) if name in names)
    one, other = at
    difference = None if one is None or other is None else other - one
    return NamedOutcome(text=shown, left=one, right=other, difference=difference)


def _side(seen: Seen, one: Said, top: list[int]) -> Side:
    assert one.chances is not None
    chances = [
        Chance(id=n, text=seen.name(n), logit=one.scores[n].item(), probability=one.chances[n].item()) for n in top
    ]
    prediction = Prediction(of=seen.kept.said.predictions[0].of, place=one.place or 0, top=chances)
    return Side(id=seen.kept.said.id, model=seen.kept.said.model.name, place=one.place, prediction=prediction)
