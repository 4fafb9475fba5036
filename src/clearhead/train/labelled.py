"""Labelled texts: a BERT learns classes or scores of texts and pairs, from a checkpoint or from nothing.

A checkpoint brings its vocabulary; for a new model one is learnt from the training texts. The shown figures are
accuracy, with two classes F1 (of the second class) and Matthews too; for scores Spearman and Pearson. What `evaluate`
calls the loss is the plain one, without smoothing.

What is here for every reader of texts (`outline`, `started`, `Rows`, `evaluating`) serves questions and pictures too.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from ..convert import open_weights
from ..data import Tokenizer
from ..data.kinds import Dataset, Labelled, Part
from ..data.learn_tokenizer import learn_tokenizer
from ..data.own_tables import own_table
from ..data.picture_batches import number as seed_for
from ..data.sets import open_set
from ..data.text_files import all_facts
from ..data.text_splits import SHARE, with_validation
from ..errors import ClearheadError, near
from ..models import Config, Family, Model, Origin, create, find, names
from ..models.bert import BERT
from ..models.registry import on_meta
from ..runs import load, tokenizer
from ..runs.folder import config_of
from ..runs.labels import name_classes
from ..runs.places import located
from ..tasks.classify import shortened_row, text_row
from .consistency import apart, twice
from .scores import accuracy, f1, matthews, pearson, spearman
from .task import Batching, Progress, Spec, evaluating, quiet

METRICS = {"cola": "matthews"}  # as GLUE judges; others by accuracy: F1, MRPC's, rewards saying yes to everything
TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")
POOL = 50  # batches whose rows are sorted by length together
WIDTHS = (16, 32, 64, 128, 256, 384, 512)  # on a GPU each width is compiled once, so there are few
EVALUATED = 64  # rows that are evaluated at once

P = TypeVar("P", bound=Part)


@dataclass(frozen=True, kw_only=True)
class LabelledSpec(Spec):
    """data        a named set (sst2, mrpc, rte, cola, stsb), or the user's own .csv, .tsv or .jsonl
    folder      where named sets lie; the one that CLEARHEAD_DATA names unless given
    options     of the set's reader; of an own table: valid and test (files), text, second and label (columns), scores
    held_out    share of the training part to validate on. A named set's own development part is then "test", as it is
                what people report of GLUE, and its own test part "official_test". Unless given, the development part
                is validated on, or a tenth of the training part where there is none
    split_seed  of what is held out
    length      the most tokens of a text or a pair; of a longer pair the longer text is cut
    vocabulary  the most tokens that are learnt for a new model
    smoothing   of labels
    consistency  how much it counts that two passes under different dropout agree (see consistency.py)
    """

    kind: ClassVar[str] = "labelled"
    data: str
    folder: str | None = None
    options: Mapping[str, Any] | None = None
    held_out: float | None = None
    split_seed: int = 0
    length: int = 128
    vocabulary: int = 8192
    smoothing: float = 0.0
    consistency: float = 0.0

    def check(self) -> None:
        self.require_sizes("length", "vocabulary")
        self.require_probabilities("smoothing")
        self.require_weights("consistency")

    def open(self) -> "LabelledTask":
        return LabelledTask(self, self._dataset())

    def _dataset(self) -> Dataset[Labelled]:
        options = dict(self.options or {})
        if self.data in all_facts():
            dataset = parts_to_train(open_set(self.data, self.folder, **options), self.held_out, self.split_seed)
        elif Path(self.data).suffix.lower() in TABLES:
            known = ("valid", "test", "text", "second", "label", "scores")
            for name in options:
                self.require(name in known, f"a table has no option {name!r}{near(name, known)}")
            share = SHARE if self.held_out is None else self.held_out
            dataset = own_table(self.data, **options, share=share, seed=self.split_seed)
        else:
            tables = f"no table ({', '.join(TABLES)})"
            raise ClearheadError(f"{self.data!r} is no named set and {tables}{near(self.data, all_facts())}")
        if dataset.kind not in ("labelled", "scored"):
            raise ClearheadError(f"{self.data} holds {dataset.kind}, not texts with labels")
        return dataset


def parts_to_train(dataset: Dataset[P], held_out: float | None, seed: int) -> Dataset[P]:
    """The data set with a part "valid" that is not what is reported in the end; see LabelledSpec.held_out."""
    if "train" not in dataset.parts:
        told = f" ({dataset.notes[0]})" if dataset.notes else ""
        raise ClearheadError(f"{dataset.name} has no part to train on{told}")
    if held_out is None or "valid" not in dataset.parts:
        return with_validation(dataset, SHARE if held_out is None else held_out, seed)
    renamed = {"train": "train", "valid": "test", "test": "official_test"}
    parts = {name: dataset.parts[own] for own, name in renamed.items() if own in dataset.parts}
    note = "test is the set's own development part"
    return with_validation(replace(dataset, parts=parts, notes=(*dataset.notes, note)), held_out, seed)


# ------------------------------------------------------------------------------------------------ models


def found(spec: Spec, family: str) -> tuple[Family, Config, str | None]:
    """The family and config that a spec's model has before its changes, and the folder of a checkpoint."""
    if spec.model in names():
        (which, config), folder = find(spec.model), None
    else:
        place = located(spec.model)
        if not place.exists():
            raise ClearheadError(f"there is no model or folder '{spec.model}'{near(spec.model, names())}")
        (which, config, _), folder = config_of(place, open_weights(place)), str(place)
    if which.name != family:
        raise ClearheadError(f"this is learnt by a {family}, and {spec.model} is a {which.name}")
    return which, config, folder


def outline(spec: Spec, family: str, changes: Mapping[str, Any]) -> tuple[Model, Config]:
    """The model that will be trained, without memory, and its config as it is before `changes`."""
    which, before, folder = found(spec, family)
    model = on_meta(which, before.with_changes(**changes))
    model.origin = Origin(spec.model, folder=folder)
    return model, before


def fields_of(spec: Spec) -> dict[str, Any]:
    """The spec's changes to the architecture; run.yaml has lists where configs have tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in (spec.fields or {}).items()}


def vocabulary(spec: Spec, texts: Iterable[str], size: int) -> Tokenizer:
    """The checkpoint's, or for a new model a WordPiece one in lower case, learnt from these texts."""
    _, _, folder = found(spec, "bert")
    return learn_tokenizer(texts, "wordpiece", size, lowercase=True) if folder is None else tokenizer(folder)


class Start:
    """A BERT to start from: what it will be, and new copies of it whose head is drawn by a seed."""

    def __init__(self, spec: Spec, tok: Tokenizer, head: str, **changes: Any) -> None:
        """`head` is the part whose weights are drawn, `changes` the task and its classes."""
        self.spec, self.head = spec, head
        self.new = spec.model in names()
        self.changes: dict[str, Any] = ({"vocab": tok.size} if self.new else {}) | changes | fields_of(spec)
        model, before = outline(spec, "bert", self.changes)
        self.config = model.config
        self.keeps_head = not self.new and _ends_alike(before, self.config)
        if tok.size > self.config.vocab:
            raise ClearheadError(f"the tokenizer has {tok.size} tokens and the model knows {self.config.vocab}")

    def model(self, seed: int) -> BERT:
        if self.new:
            made = create(self.spec.model, device="cpu", seed=seed, **self.changes)
        else:
            made = load(self.spec.model, device="cpu", **self.changes)
        assert isinstance(made, BERT)
        if not self.new and not self.keeps_head:
            random = Generator().manual_seed(seed)
            for name, weight in made.named_parameters():
                if name.startswith(f"{self.head}."):
                    made.fill(name, weight.data, random)
        return made


def _ends_alike(before: Any, after: Any) -> bool:
    return (before.task, before.num_classes) == (after.task, after.num_classes)


# ------------------------------------------------------------------------------------------------ rows


class Row(NamedTuple):
    """The numbers of a text or pair, and to which of the two each belongs."""

    ids: np.ndarray
    segments: np.ndarray

    @classmethod
    def of(cls, ids: Sequence[int], segments: Sequence[int]) -> "Row":
        return cls(np.array(ids, np.int32), np.array(segments, np.uint8))


class Filled(NamedTuple):
    """ids (B,L), lengths (B,) and segments (B,L), as BERT takes them."""

    ids: Tensor
    lengths: Tensor
    segments: Tensor


class Rows:
    """Rows of several lengths, dealt into batches of like lengths.

    An epoch is a permutation, cut into pools; a pool's rows are sorted by length and cut into batches of exactly the
    size that is asked for, and all batches are shuffled. What does not fill a last batch waits for the next epoch.
    """

    def __init__(self, rows: Sequence[Row], segments: int, limit: int) -> None:
        """`segments`: how many kinds of sentence the model knows; `limit`: how many tokens it reads."""
        self.rows, self.segments, self.limit = rows, segments, limit
        self.lengths = torch.tensor([len(row.ids) for row in rows])
        self._epoch = functools.lru_cache(maxsize=4)(self._dealt)

    def __len__(self) -> int:
        return len(self.rows)

    def per_epoch(self, size: int) -> int:
        return max(1, len(self.rows) // size)

    def share(self, number: int, batching: Batching, rank: int, world: int) -> list[int]:
        """The rows of this process in the batch with this number."""
        epoch, place = divmod(number, self.per_epoch(batching.size))
        batch = self._epoch(batching.size, batching.seed, epoch)[place]
        if len(batch) < world:
            raise ClearheadError(f"a batch of {len(batch)} rows can't be shared among {world} processes")
        return batch[rank::world]

    def _dealt(self, size: int, seed: int, epoch: int) -> list[list[int]]:
        random = Generator().manual_seed(seed_for(seed, "order", epoch))
        order, count = torch.randperm(len(self.rows), generator=random), self.per_epoch(size)
        batches: list[list[int]] = []
        for start in range(0, count, POOL):
            pool = order[start * size : min(start + POOL, count) * size]
            pool = pool[self.lengths[pool].argsort(stable=True)]
            batches += [part.tolist() for part in pool.split(size)]
        return [batches[place] for place in torch.randperm(count, generator=random).tolist()]

    def longest_first(self, size: int) -> list[list[int]]:
        """Every row once, in batches of like lengths."""
        return [part.tolist() for part in self.lengths.argsort(descending=True, stable=True).split(size)]

    def filled(self, chosen: Sequence[int], device: torch.device) -> Filled:
        rows = [self.rows[number] for number in chosen]
        lengths = torch.tensor([len(row.ids) for row in rows])
        width = self._width(int(lengths.max()), device)
        ids, segments = (np.zeros((len(rows), width), np.int64) for _ in range(2))
        for place, row in enumerate(rows):
            ids[place, : len(row.ids)], segments[place, : len(row.ids)] = row
        segments = segments.clip(max=self.segments - 1)
        return Filled(*(tensor.to(device) for tensor in (torch.from_numpy(ids), lengths, torch.from_numpy(segments))))

    def _width(self, longest: int, device: torch.device) -> int:
        if device.type == "cpu":
            return longest
        return min(self.limit, next((width for width in WIDTHS if width >= longest), longest))


# ------------------------------------------------------------------------------------------------ the task


class LabelledBatch(NamedTuple):
    text: Filled
    labels: Tensor


class LabelledTask:
    higher_is_better = True

    def __init__(self, spec: LabelledSpec, dataset: Dataset[Labelled]) -> None:
        self.spec, self.classes, self.dataset = spec, dataset.classes, dataset
        self.scored = dataset.kind == "scored"
        self.metric = "spearman" if self.scored else METRICS.get(spec.data, "accuracy")
        self.parts = tuple(name for name in dataset.parts if name != "train")
        train = dataset.parts["train"]
        self.tokenizer = vocabulary(spec, (*train.texts, *(train.seconds or ())), spec.vocabulary)
        count = 1 if self.scored else len(self.classes)
        self.start = Start(spec, self.tokenizer, "output", task="classify", num_classes=count)
        self.limit = min(spec.length, self.start.config.context)
        self.rows, cut = {}, 0
        for name, part in dataset.parts.items():
            rows, over = self._encoded(part)
            self.rows[name], cut = Rows(rows, self.start.config.segments, self.limit), cut + over
        said = (f"{cut} texts were cut at {self.limit} tokens",) if cut else ()
        self.notes = (str(dataset), *dataset.notes, *said)

    def _encoded(self, part: Labelled) -> tuple[list[Row], int]:
        texts = part.texts if part.seconds is None else list(zip(part.texts, part.seconds, strict=True))
        rows = [text_row(self.tokenizer, text) for text in texts]
        short = [Row.of(*shortened_row(*row, self.limit)) for row in rows]
        return short, sum(len(ids) > self.limit for ids, _ in rows)

    def model(self, seed: int) -> Model:
        made = self.start.model(seed)
        problem = "regression" if self.scored else "single_label_classification"
        name_classes(made, ("score",) if self.scored else self.classes, problem)
        return made

    def batches_per_epoch(self, batching: Batching) -> float:
        return self.rows["train"].per_epoch(batching.size)

    def batch(self, number: int, batching: Batching, rank: int, world: int, device: torch.device) -> LabelledBatch:
        chosen = self.rows["train"].share(number, batching, rank, world)
        return self.batch_of("train", chosen, device)

    def batch_of(self, part: str, chosen: Sequence[int], device: torch.device) -> LabelledBatch:
        labels = self.dataset.parts[part].labels[torch.tensor(chosen)]
        return LabelledBatch(self.rows[part].filled(chosen, device), labels.to(device))

    def weight(self, batch: LabelledBatch) -> int:
        return len(batch.labels)

    def losses(self, model: Model, batch: LabelledBatch) -> dict[str, Tensor]:
        if self.spec.consistency and not self.scored:
            return self._twice(model, batch)
        scores = model.head(model.hidden(*batch.text)).float()
        if self.scored:
            return {"loss": F.mse_loss(scores[:, 0], batch.labels, reduction="sum")}
        loss = F.cross_entropy(scores, batch.labels, reduction="sum", label_smoothing=self.spec.smoothing)
        return {"loss": loss, "accuracy": (scores.argmax(-1) == batch.labels).sum().float()}

    def _twice(self, model: Model, batch: LabelledBatch) -> dict[str, Tensor]:
        """One pass over every row twice, which dropout makes two; the loss is the mean of both and what parts them."""
        text, labels = Filled(*map(twice, batch.text)), twice(batch.labels)
        scores = model.head(model.hidden(*text)).float()
        loss = F.cross_entropy(scores, labels, reduction="sum", label_smoothing=self.spec.smoothing) / 2
        divergence, right = apart(scores).sum(), (scores.argmax(-1) == labels).sum().float() / 2
        return {"loss": loss + self.spec.consistency * divergence, "apart": divergence, "accuracy": right}

    def predicted(
        self, model: Model, part: str, device: torch.device, progress: Progress = quiet
    ) -> tuple[Tensor, Tensor]:
        """Scores (N, classes) for every row of a part, in its order, and the truths (N,). On the CPU."""
        truths, done = self.dataset.parts[part].labels, 0
        scores = torch.empty(len(truths), self.start.config.num_classes)
        with evaluating(model):
            for chosen in self.rows[part].longest_first(EVALUATED):
                batch = self.batch_of(part, chosen, device)
                scores[chosen] = model.head(model.hidden(*batch.text)).float().cpu()
                done += len(chosen)
                progress(done, len(truths))
        return scores, truths

    def evaluate(self, model: Model, part: str, device: torch.device, progress: Progress = quiet) -> dict[str, float]:
        scores, truths = self.predicted(model, part, device, progress)
        if self.scored:
            given = scores[:, 0]
            loss = F.mse_loss(given.double(), truths.double()).item()
            return {"spearman": spearman(given, truths), "pearson": pearson(given, truths), "loss": loss}
        answers = scores.argmax(-1)
        figures = {"accuracy": accuracy(answers, truths), "loss": F.cross_entropy(scores.double(), truths).item()}
        if len(self.classes) == 2:
            figures |= {"f1": f1(answers, truths), "matthews": matthews(answers, truths)}
        return figures

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)
