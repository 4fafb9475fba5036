"""Questions with their passages: a BERT learns where in the passage an answer starts and ends.

A long passage is read in windows that overlap, the same ones in training and in answering. The rule for a window that
does not hold the whole answer: both its ends point at the first token, [CLS], as BERT's authors have it; so the model
learns low scores for passages without an answer, and the best span over all windows is the answer. Of several
accepted answers the first one is learnt. Exact match and F1 are SQuAD's, as shares from 0 to 1; those of two ways to
answer without learning stand beside them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..data.kinds import Dataset, Question, Questions
from ..data.sets import open_set
from ..errors import ClearheadError
from ..models import Model
from ..tasks.answer import LONGEST, OVERLAP, WINDOW, Asked, Window, best_spans, enter, prepared_question, windows_of
from .labelled import Filled, Row, Rows, Start, parts_to_train, vocabulary
from .scores import squad
from .span_baselines import baselines
from .task import Batching, Progress, Spec, evaluating, quiet

EVALUATED = 32  # windows that are evaluated at once


@dataclass(frozen=True, kw_only=True)
class QuestionSpec(Spec):
    """data        a named set of questions (squad)
    folder      where named sets lie; the one that CLEARHEAD_DATA names unless given
    options     of the set's reader, such as split="article"
    held_out    share of the training articles to validate on; the set's own development part is then "test"
    split_seed  of what is held out
    length      tokens of a window, question and passage together
    overlap     tokens of the passage that neighbouring windows share, or half a window where that is less
    longest     the most tokens of an answer that is given
    vocabulary  the most tokens that are learnt for a new model
    """

    kind: ClassVar[str] = "questions"
    data: str = "squad"
    folder: str | None = None
    options: Mapping[str, Any] | None = None
    held_out: float | None = None
    split_seed: int = 0
    length: int = WINDOW
    overlap: int = OVERLAP
    longest: int = LONGEST
    vocabulary: int = 8192

    def check(self) -> None:
        self.require_sizes("length", "longest", "vocabulary")
        whole = type(self.overlap) is int and self.overlap >= 0
        self.require(whole, f"overlap must be a whole number from 0, not {self.overlap!r}")

    def open(self) -> "QuestionTask":
        dataset = open_set(self.data, self.folder, **(self.options or {}))
        if dataset.kind != "questions":
            raise ClearheadError(f"{self.data} holds {dataset.kind}, not questions with answers")
        return QuestionTask(self, parts_to_train(dataset, self.held_out, self.split_seed))


class QuestionBatch(NamedTuple):
    """ends (B,2): where in the row the answer's first and last token are."""

    text: Filled
    ends: Tensor


class _Read(NamedTuple):
    """A part as the model reads it, by window, and where the answer is in each; what only answering needs is large."""

    rows: Rows
    ends: Tensor
    windows: list[Window]
    asked: list[Asked]


class QuestionTask:
    metric = "f1"
    higher_is_better = True

    def __init__(self, spec: QuestionSpec, dataset: Dataset[Questions]) -> None:
        self.spec = spec
        self.questions: dict[str, Sequence[Question]] = {name: part.rows for name, part in dataset.parts.items()}
        self.parts = tuple(name for name in self.questions if name != "train")
        train = self.questions["train"]
        texts = (*dict.fromkeys(row.passage for row in train), *(row.question for row in train))
        self.tokenizer = vocabulary(spec, texts, spec.vocabulary)
        self.start = Start(spec, self.tokenizer, "span", task="answer")
        self.limit = min(spec.length, self.start.config.context)
        self.train = self._read(train, answering=False)
        self._parts: dict[str, _Read] = {}
        without = int((self.train.ends == 0).all(1).sum())
        windows = f"{len(self.train.rows):,} windows to train on, {without:,} of them without the answer"
        self.notes = (str(dataset), *dataset.notes, windows)

    def _read(self, questions: Sequence[Question], answering: bool) -> _Read:
        rows: list[Row] = []
        ends: list[tuple[int, int]] = []
        windows: list[Window] = []
        asked: list[Asked] = []
        for number, question in enumerate(questions):
            one = prepared_question(self.tokenizer, question.question, question.passage)
            room = self.limit - len(one.before[0]) - len(one.after[0])
            place = answer_tokens(one, question)
            for window in windows_of(number, one, self.limit, min(self.spec.overlap, max(room, 0) // 2)):
                rows.append(Row.of(*window.row))
                ends.append(ends_in(window, *place))
                if answering:
                    windows.append(window)
            if answering:
                asked.append(one)
        return _Read(Rows(rows, self.start.config.segments, self.limit), torch.tensor(ends), windows, asked)

    def model(self, seed: int) -> Model:
        return self.start.model(seed)

    def batches_per_epoch(self, batching: Batching) -> float:
        return self.train.rows.per_epoch(batching.size)

    def batch(self, number: int, batching: Batching, rank: int, world: int, device: torch.device) -> QuestionBatch:
        chosen = self.train.rows.share(number, batching, rank, world)
        return _batch(self.train, chosen, device)

    def weight(self, batch: QuestionBatch) -> int:
        return len(batch.ends)

    def losses(self, model: Model, batch: QuestionBatch) -> dict[str, Tensor]:
        return {"loss": span_loss(model.head(model.hidden(*batch.text)), batch)}

    def answered(
        self, model: Model, part: str, device: torch.device, progress: Progress = quiet
    ) -> tuple[list[str], float]:
        """The best answer to every question of a part, in its order, and the mean loss of its windows."""
        if part not in self._parts:
            self._parts[part] = self._read(self.questions[part], answering=True)
        read, loss, done = self._parts[part], [], 0
        longest = [min(self.spec.longest, len(one.characters)) for one in read.asked]
        bands = [
            torch.full((len(one.characters), most), -math.inf) for one, most in zip(read.asked, longest, strict=True)
        ]
        with evaluating(model):
            for chosen in read.rows.longest_first(EVALUATED):
                batch = _batch(read, chosen, device)
                logits = model.head(model.hidden(*batch.text)).float()
                loss.append(span_loss(logits, batch).item())
                for number, scores in zip(chosen, logits.cpu(), strict=True):
                    window = read.windows[number]
                    enter(bands[window.asked], window, scores[window.offset : window.offset + window.count])
                done += len(chosen)
                progress(done, len(read.rows))
        best = [best_spans(one, band, 1)[0].text for one, band in zip(read.asked, bands, strict=True)]
        return best, math.fsum(loss) / len(read.rows)

    def evaluate(self, model: Model, part: str, device: torch.device, progress: Progress = quiet) -> dict[str, float]:
        answers, loss = self.answered(model, part, device, progress)
        questions = self.questions[part]
        figures = squad(answers, [[text for text, _ in one.answers] for one in questions])
        return figures | {"loss": loss} | baselines(questions)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)


def _batch(read: _Read, chosen: Sequence[int], device: torch.device) -> QuestionBatch:
    return QuestionBatch(read.rows.filled(chosen, device), read.ends[torch.tensor(chosen)].to(device))


def span_loss(logits: Tensor, batch: QuestionBatch) -> Tensor:
    """logits (B,L,2) -> the sum over windows of the mean of both ends' cross-entropies; padding is no place."""
    places = torch.arange(logits.shape[1], device=logits.device)
    beyond_BL1 = (places >= batch.text.lengths[:, None])[..., None]
    logits = logits.float().masked_fill(beyond_BL1, -math.inf)
    return F.cross_entropy(logits, batch.ends, reduction="sum") / 2


def answer_tokens(asked: Asked, question: Question) -> tuple[int, int]:
    """The first and last of the passage's tokens that the first accepted answer touches; (-1, -1) where none does."""
    text, start = question.answers[0]
    first, last = start + len(text) - len(text.lstrip()), start + len(text.rstrip())
    touched = [place for place, (left, right) in enumerate(asked.characters) if right > first and left < last]
    return (touched[0], touched[-1]) if touched else (-1, -1)


def ends_in(window: Window, first: int, last: int) -> tuple[int, int]:
    """Where in a window's row the answer starts and ends; at its first token twice if the window lacks some of it."""
    if not window.start <= first <= last < window.start + window.count:
        return 0, 0
    shift = window.offset - window.start
    return first + shift, last + shift
