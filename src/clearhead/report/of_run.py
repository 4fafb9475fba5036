"""A finished run as a page: which examples of its data are shown, and the page beside its weights."""

from pathlib import Path
from typing import Any

from ..data.kinds import Part, Questions, Running
from ..errors import ClearheadError
from ..models.base import Model
from ..train.corruption import Corruption
from ..train.labelled import LabelledTask
from ..train.language import Language
from ..train.letters import Letters
from ..train.masked import Masked
from ..train.pictures import PictureTask
from ..train.questions import QuestionTask
from ..train.task import Task
from ..train.translation import TranslationTask
from .page import write_report
from .sample_kinds import Sample
from .samples import sample_predictions
from .text_samples import language_samples

EXCERPTS, EXCERPT = 8, 200  # texts, and tokens of each, that samples are taken from


def report_run(folder: Path, task: Task, model: Model) -> tuple[Path, list[Sample]]:
    """Write report.html into a run's folder; give the page and the samples on it."""
    samples = list(run_samples(task, model))
    return write_report(folder, samples), samples


def run_samples(task: Task, model: Model) -> Any:
    """Predictions for the last part that the task judges: a test where there is one."""
    name = "test" if "test" in task.parts else task.parts[-1]
    if isinstance(task, Letters):
        words = task.rows[name][:: max(1, len(task.rows[name]) // EXCERPTS)]
        halves = [(task.tokenizer.text(row[:6].tolist()), task.tokenizer.text(row[6:].tolist())) for row in words]
        return language_samples(model, [word for word, _ in halves], [answer for _, answer in halves], length=6)
    if isinstance(task, Corruption):
        return ()  # what a span was is a sentinel's business: its figures say more than a sample
    return sample_predictions(model, shown(task, name))


def shown(task: Task, name: str) -> Part:
    """A part of the task's data as it was read; running text, kept as tokens alone, is written out again in places."""
    if isinstance(task, PictureTask):
        return task.data[name]
    if isinstance(task, LabelledTask):
        return task.dataset.parts[name]
    if isinstance(task, TranslationTask):
        return task.texts[name]
    if isinstance(task, QuestionTask):
        return Questions(task.questions[name])
    if isinstance(task, Language):
        return _excerpts(task.numbers[name], task.tokenizer)
    if isinstance(task, Masked):
        return _excerpts(task.texts[name].numbers, task.tokenizer)
    raise ClearheadError(f"there is nothing to show of a {type(task).__name__}")


def _excerpts(numbers: Any, tokenizer: Any) -> Running:
    starts = range(0, max(1, len(numbers) - EXCERPT), max(1, len(numbers) // EXCERPTS))
    return Running([tokenizer.text([int(n) for n in numbers[start : start + EXCERPT]]) for start in starts])
