"""One input through one model twice, untouched and with an intervention: what it answers before and after."""

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor, nn

from ..models import Model
from ..models.bert import BERT
from ..ops import cosine
from ..tasks.record import Inputs, prepared, record
from ..trace import Trace
from .answers import (
    asked_place,
    asked_scores,
    best,
    checked_item,
    checked_model,
    names_of,
    probabilities_of,
    row_length,
    scores_of,
)
from .interventions import Intervention


@dataclass(frozen=True)
class Answer:
    """What a pass answers.

    scores         (numbers,) at the place that is asked; of a BERT without a task (width,), the mean over its tokens
    probabilities  (numbers,) of these; None where the scores are no choice between words or classes
    trace          the sites that were asked for
    """

    scores: Tensor
    probabilities: Tensor | None
    trace: Trace


@dataclass(frozen=True)
class Outcome:
    """A word or a class, and how probable it is before and after."""

    number: int
    name: str
    before: float
    after: float

    @property
    def difference(self) -> float:
        return self.after - self.before


@dataclass(frozen=True)
class Comparison:
    """`outcomes`: the most probable before or after, by what they were before; none without probabilities.

    cosine  of the scores before and after: 1 where nothing changed
    place   at which token was asked; None where the model answers once for the whole input
    """

    before: Answer
    after: Answer
    outcomes: tuple[Outcome, ...]
    place: int | None
    cosine: float

    @property
    def difference(self) -> Tensor:
        """(numbers,): after - before, of the probabilities, or of the scores where there are none."""
        if self.before.probabilities is None or self.after.probabilities is None:
            return self.after.scores - self.before.scores
        return self.after.probabilities - self.before.probabilities


def compare(
    model: nn.Module,
    inputs: Inputs,
    intervention: Intervention,
    *,
    place: int | None = None,
    count: int = 10,
    item: int = 0,
    sites: str | Iterable[str] = (),
) -> Comparison:
    """Run the model with and without the intervention, both on the reference path.

    inputs  as `record` takes them: a text, a picture, (source, target) of an encoder-decoder, or tensors
    place   which token's answer is compared: the last of a model that writes, the first blank of a BERT that fills,
            unless given
    count   how many outcomes of each are compared
    sites   what the traces of both passes keep
    """
    model = checked_model(model)
    ready = prepared(model, inputs)
    sites = [sites] if isinstance(sites, str) else list(sites)
    passes = [record(model, ready.tensors, sites=sites, replace=replace) for replace in (None, intervention)]
    for one in passes:
        one.about |= ready.about
    place, (before, after) = _answers(model, ready.tensors, passes, place, item)
    outcomes = _outcomes(model, before, after, count)
    alike = cosine(before.scores[None], after.scores[None]).item()
    return Comparison(before, after, outcomes, place, alike)


def _answers(
    model: Model, tensors: tuple[Tensor, ...], passes: list[Trace], place: int | None, item: int
) -> tuple[int | None, list[Answer]]:
    if isinstance(model, BERT) and model.config.task is None:
        checked_item(tensors[0], item)
        length = row_length(model, tensors, item)
        hidden: list[Tensor] = [one.output[0][item, :length] for one in passes]
        vectors = [_float(rows.mean(0)) for rows in hidden]
        return None, [Answer(vector, None, one) for vector, one in zip(vectors, passes, strict=True)]
    scores = [scores_of(model, one.output) for one in passes]
    checked_item(scores[0], item)
    place = asked_place(model, tensors, scores[0], place, item)
    rows = [_float(asked_scores(one, place, item)) for one in scores]
    return place, [Answer(row, probabilities_of(model, row), one) for row, one in zip(rows, passes, strict=True)]


def _float(values: Tensor) -> Tensor:
    return values.detach().float().cpu()


def _outcomes(model: Model, before: Answer, after: Answer, count: int) -> tuple[Outcome, ...]:
    if before.probabilities is None or after.probabilities is None:
        return ()
    numbers = {number for answer in (before, after) for number in best(answer.probabilities, count)[0]}  # pyright: ignore
    name = names_of(model)
    found = [
        Outcome(number, name(number), before.probabilities[number].item(), after.probabilities[number].item())
        for number in numbers
    ]
    return tuple(sorted(found, key=lambda outcome: (-outcome.before, outcome.number)))
