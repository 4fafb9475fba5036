"""What the weights that a run has saved say of the same few validation examples, time after time."""

import base64
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from ..data.embedded import WORD_LENGTH
from ..data.kinds import Labelled, Parallel, Part, Pictures, Questions, Running
from ..models import Model
from ..report.of_run import shown
from ..report.sample_kinds import (
    LanguageSample,
    MaskedSample,
    PictureSample,
    QuestionSample,
    Sample,
    TextSample,
    TranslationSample,
)
from ..report.samples import sample_predictions
from ..report.text_samples import language_samples
from ..runs import load
from ..train.corruption import Corruption
from ..train.letters import Letters
from ..train.loop import Run
from ..train.task import Task
from .pictures import as_png
from .tasks_kept import Tasks
from .training_schema import Samples, SampleTold

COUNT = 6
WEIGHTS = "model.safetensors"
KEPT = 16
LONGEST = 600  # letters of a text that is shown


class SampleBook:
    """Samples by folder, made anew when its weights have changed."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks
        self._kept: OrderedDict[Path, Samples] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, run: Run, folder: Path) -> Samples:
        with self._lock:
            try:
                saved = (folder / WEIGHTS).stat().st_mtime
            except OSError:
                return Samples(samples=[], part=None, saved=None, note=_when(run))
            kept = self._kept.get(folder)
            if kept is None or kept.saved != saved:
                kept = self._made(run, folder, saved)
            self._kept[folder] = kept
            self._kept.move_to_end(folder)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            return kept

    def _made(self, run: Run, folder: Path, saved: float) -> Samples:
        task = self.tasks.open(run)
        if isinstance(task, Corruption):
            note = "dropped spans are judged by figures alone: there is nothing to show of one"
            return Samples(samples=[], part=None, saved=saved, note=note)
        part = "valid" if "valid" in task.parts else task.parts[-1]
        model = load(folder, device="cpu")
        told = [TOLD[type(sample)](sample) for sample in samples(task, model, part)]
        return Samples(samples=told, part=part, saved=saved)


def _when(run: Run) -> str:
    every = run.settings.validate_every
    when = "at the end of the first epoch" if every is None else f"at step {every}"
    return f"no weights are saved yet: the first ones are with the first validation, {when}"


def samples(task: Task, model: Model, part: str) -> Iterator[Sample]:
    """One example at a time, so that they stay in their order whatever is said of them."""
    if isinstance(task, Letters):
        for row in task.rows[part][_places(len(task.rows[part]))]:
            word, answer = (task.tokenizer.text(half.tolist()) for half in (row[:WORD_LENGTH], row[WORD_LENGTH:]))
            yield from language_samples(model, [word], [answer], length=WORD_LENGTH)
        return
    data = shown(task, part)
    for place in _places(len(data)):
        yield from sample_predictions(model, _alone(data, place), count=1)


def _places(count: int) -> list[int]:
    return [place * count // min(COUNT, count) for place in range(min(COUNT, count))]


def _alone(data: Part, place: int) -> Part:
    """A part that holds one example of another."""
    here = slice(place, place + 1)
    if isinstance(data, Pictures):
        return Pictures(data.pixels[here], data.labels[here])
    if isinstance(data, Labelled):
        return Labelled(data.texts[here], data.labels[here], None if data.seconds is None else data.seconds[here])
    if isinstance(data, Parallel):
        return Parallel(data.sources[here], data.targets[here])
    if isinstance(data, Questions):
        return Questions(data.rows[here])
    assert isinstance(data, Running)
    return Running(data.documents[here])


def picture_url(pixels: Tensor) -> str:
    """uint8 (C,H,W) as a data URL."""
    from PIL import Image

    array = (pixels[0] if len(pixels) == 1 else pixels.permute(1, 2, 0)).contiguous().numpy()
    return f"data:image/png;base64,{base64.b64encode(as_png(Image.fromarray(array))).decode()}"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _picture(sample: PictureSample) -> SampleTold:
    return SampleTold(
        given="",
        picture=picture_url(sample.pixels),
        truth=sample.truth,
        said=sample.predicted,
        probability=sample.probability,
        right=sample.right,
    )


def _text(sample: TextSample) -> SampleTold:
    both = sample.text if isinstance(sample.text, str) else " | ".join(sample.text)
    said = {"truth": sample.truth, "said": sample.predicted, "probability": sample.probability, "right": sample.right}
    return SampleTold(given=_short(both), **said)


def _language(sample: LanguageSample) -> SampleTold:
    return SampleTold(
        given=_short(sample.prompt), truth=sample.truth, said=_short(sample.continuation), right=sample.right
    )


def _translation(sample: TranslationSample) -> SampleTold:
    return SampleTold(
        given=_short(sample.source), truth=sample.reference, said=_short(sample.output), right=sample.right
    )


def _masked(sample: MaskedSample) -> SampleTold:
    best = ", ".join(guesses[0].word for guesses in sample.filled.blanks)
    return SampleTold(given=_short(sample.text), truth=", ".join(sample.truths), said=best, right=sample.right)


def _question(sample: QuestionSample) -> SampleTold:
    return SampleTold(
        given=_short(f"{sample.question} | {sample.passage}"),
        truth=" | ".join(sample.truths),
        said=sample.answer.text,
        probability=sample.answer.probability,
        right=sample.right,
    )


TOLD: dict[type, Callable[[Any], SampleTold]] = {
    PictureSample: _picture,
    TextSample: _text,
    LanguageSample: _language,
    TranslationSample: _translation,
    MaskedSample: _masked,
    QuestionSample: _question,
}
