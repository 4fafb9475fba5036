"""Span corruption, T5's first task: spans of a text are replaced by sentinels, and the answer is what they stand for.

    Thank you <X> me to your party <Y> week .   ->   <X> for inviting <Y> last <Z>

Raffel et al. 2020, section 3.1.4: 15% of the tokens in spans of 3 on average, both fields here; as in their code the
number of spans and of tokens in them follows from the length, and only where they lie is drawn. As in their text, and
not in their code, the answer closes with one more sentinel, and spans lie anywhere: the code ends every row with one,
so that of a short row with one span nothing but the end would ever be asked for.
Rows are windows of running text; of a parallel set, every line of either side is a row, cut where it is too long.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from tokenizers import Tokenizer as Backend
from torch import Tensor

from ..data.kinds import Dataset
from ..data.learn_tokenizer import learn_tokenizer
from ..data.sets import open_set
from ..data.text_files import all_facts, require
from ..data.text_splits import with_validation
from ..data.token_file import windows
from ..data.tokenizers import Tokenizer
from ..models import Model
from ..models.t5 import T5Config
from .pairs import PairBatch, Ragged, pair_batch, pair_loss
from .task import Batching, Progress, Spec, Task, evaluating, quiet
from .text_sources import (
    EVALUATED_AT_ONCE,
    TOKENIZERS,
    check_share,
    checkpoint_tokenizer,
    config_of,
    draws,
    is_new,
    loaded_model,
    new_model,
    running_text,
    shuffled,
)
from .written import Ends, written

JUDGED_WITH = 2**63 - 25  # the seed of an evaluation's spans: the same ones in every run
SENTINEL = re.compile(r"<extra_id_(\d+)>")
SHORT = 3  # tokens of a span whose exact match is told

Span = tuple[int, int]
Pair = tuple[list[int], list[int]]


@dataclass(frozen=True, kw_only=True)
class CorruptionSpec(Spec):
    """data        the name of a set of running or parallel text, or files and folders of text
    folder      where named sets lie; options: of the set's reader
    valid, test your own files for these; without valid, a tenth is held out
    tokenizer   bpe (unless given), characters or words, learnt from the training part; a checkpoint has its own
    vocabulary  how many tokens it may have, without the sentinels
    sentinels   how many there are, one more than a row can have spans
    length      tokens of a row before spans are taken out
    density     share of the tokens that are dropped; mean_span: tokens of a dropped span, on average
    written     how many rows of a part are written to count the spans that match, evenly spread
    """

    kind: ClassVar[str] = "corruption"
    data: str | tuple[str, ...]
    folder: str | None = None
    options: Mapping[str, Any] | None = None
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    tokenizer: str | None = None
    vocabulary: int | None = None
    sentinels: int = 100
    length: int = 128
    density: float = 0.15
    mean_span: float = 3.0
    written: int = 256

    def check(self) -> None:
        if self.tokenizer is not None:
            self.require_choice("tokenizer", TOKENIZERS)
        self.require_sizes("sentinels", "length", "written", *(["vocabulary"] if self.vocabulary is not None else []))
        self.require(self.length >= 2, f"a row needs at least 2 tokens, not {self.length}")
        self.require(0 < self.density < 1, f"density must be above 0 and below 1, not {self.density!r}")
        self.require(self.mean_span >= 1, f"mean_span must be at least 1, not {self.mean_span!r}")

    def open(self) -> Task:
        return Corruption(self)


def span_count(length: int, density: float, mean_span: float) -> tuple[int, int]:
    """How many tokens of a row are dropped, and in how many spans: always the same for a length."""
    dropped = min(max(round(length * density), 1), length - 1)
    return dropped, min(max(round(dropped / mean_span), 1), length - dropped)


def drawn_spans(length: int, density: float, mean_span: float, lots: np.ndarray) -> list[Span]:
    """Where spans lie, from one lot (below 2^64) for each token of the row: every way is as likely as any other.

    Kept and dropped stretches take turns; only the first and the last kept one may be empty.
    """
    dropped, count = span_count(length, density, mean_span)
    taken = _parted(dropped, count, lots[: dropped - 1])
    kept = _parted(length - dropped + 2, count + 1, lots[dropped - 1 :])
    kept[[0, -1]] -= 1
    ends = np.cumsum(np.stack([kept[:-1], taken], 1).flatten()).reshape(-1, 2)
    return [(int(first), int(last)) for first, last in ends]


def _parted(total: int, count: int, lots: np.ndarray) -> np.ndarray:
    """`total` things as `count` stretches, none of them empty: the smallest lots say where the cuts are."""
    cuts = np.sort(np.argsort(lots[: total - 1], kind="stable")[: count - 1]) + 1
    return np.diff(np.concatenate([[0], cuts, [total]]))


def corrupted(tokens: Sequence[Any], spans: Sequence[Span], sentinels: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The text with a sentinel in place of each span; and the spans, each behind its sentinel, one more at the end."""
    read, said, done = [], [], 0
    for sentinel, (first, last) in zip(sentinels, spans, strict=False):
        read += [*tokens[done:first], sentinel]
        said += [sentinel, *tokens[first:last]]
        done = last
    return [*read, *tokens[done:]], [*said, sentinels[len(spans)]]


def with_sentinels(tokenizer: Tokenizer, count: int) -> Tokenizer:
    """The same vocabulary with <extra_id_0> and so on behind it."""
    backend = Backend.from_str(tokenizer.definition)
    backend.add_special_tokens([f"<extra_id_{number}>" for number in range(count)])
    return Tokenizer(backend, tokenizer.roles)


class Corruption:
    metric, higher_is_better = "loss", False

    def __init__(self, spec: CorruptionSpec) -> None:
        self.spec = spec
        config = config_of(spec, T5Config, "span corruption")
        dataset = self._dataset()
        require("train" in dataset.parts, f"{dataset.name} has no train part")
        self.by_line = dataset.kind == "parallel"
        texts = {name: _texts(part) for name, part in dataset.parts.items()}
        self.tokenizer = self._tokenizer(texts["train"], config)
        self.settled = self._settled() if is_new(spec) else {}
        self.ends = Ends.of(config.with_changes(**self.settled), self.tokenizer)
        numbered = {SENTINEL.fullmatch(name): number for name, number in self.tokenizer.vocabulary.items()}
        places = {int(match[1]): number for match, number in numbered.items() if match}
        self.sentinels = [places[place] for place in range(len(places)) if place in places]
        most = span_count(spec.length, spec.density, spec.mean_span)[1] + 1
        have = len(self.sentinels)
        require(have >= most, f"rows of {spec.length} tokens need {most} sentinels, and the tokenizer has {have}")
        self.rows = {name: self._rows(documents) for name, documents in texts.items()}
        self.parts = tuple(name for name in self.rows if name != "train")
        sizes = ", ".join(f"{name} {len(rows):,}" for name, rows in self.rows.items())
        told = f"{self.tokenizer.size:,} tokens in the vocabulary; {'lines' if self.by_line else 'tokens'}: {sizes}"
        self.notes = (*dataset.notes, told)

    def _dataset(self) -> Dataset:
        spec = self.spec
        if isinstance(spec.data, str) and spec.data in all_facts() and all_facts()[spec.data]["kind"] == "parallel":
            require(not (spec.valid or spec.test), f"{spec.data} has parts of its own: leave out valid and test")
            return with_validation(open_set(spec.data, spec.folder, **(spec.options or {})))
        return running_text(spec.data, spec.folder, spec.options, spec.valid, spec.test)

    def _tokenizer(self, texts: Sequence[str], config: T5Config) -> Tokenizer:
        if not is_new(self.spec):
            return checkpoint_tokenizer(self.spec, self.spec.tokenizer, config.vocab)
        kind = self.spec.tokenizer or "bpe"
        special = {"pad": "<pad>", **({} if kind == "bpe" else {"unk": "<unk>"}), "eos": "<end>"}
        learnt = learn_tokenizer(texts, kind, self.spec.vocabulary, special, closing=True)
        return with_sentinels(learnt, self.spec.sentinels)

    def _settled(self) -> dict[str, Any]:
        pad, end = (self.tokenizer.special[role] for role in ("pad", "eos"))
        return {"vocab": self.tokenizer.size, "pad_token": pad, "start_token": pad, "end_token": end}

    def _rows(self, documents: Sequence[str]) -> Any:
        """Lines as they are, but for those of one token, which hide nothing; running text as one stream."""
        numbers = [np.array(self.tokenizer.ids(text, special=False)[: self._most], np.int32) for text in documents]
        if self.by_line:
            return [row for row in numbers if len(row) > 1]
        stream = np.concatenate(numbers)
        require(len(stream) > self.spec.length, f"a part has too few tokens for rows of {self.spec.length}")
        return stream

    @property
    def _most(self) -> int | None:
        return self.spec.length if self.by_line else None

    def model(self, seed: int) -> Model:
        return new_model(self.spec, seed, **self.settled) if is_new(self.spec) else loaded_model(self.spec)

    def batches_per_epoch(self, batching: Batching) -> float:
        train = self.rows["train"]
        return len(train) / batching.size / (1 if self.by_line else self.spec.length)

    def batch(self, number: int, batching: Batching, rank: int, world: int, device: torch.device) -> PairBatch:
        check_share(batching.size, world)
        train = self.rows["train"]
        if self.by_line:
            rows = [train[row] for row in shuffled(len(train), batching.seed, number, batching.size)]
        else:
            rows = [*windows(train, self.spec.length, batching.seed, number, batching.size)[0].numpy()]
        lots = draws(batching.size * self.spec.length, batching.seed, number, stream=2).reshape(batching.size, -1)
        return self._batch(rows[rank::world], lots[rank::world], device)

    def _batch(self, rows: Sequence[np.ndarray], lots: np.ndarray, device: torch.device) -> PairBatch:
        pairs = [self._pair(row, drawn) for row, drawn in zip(rows, lots, strict=True)]
        return self._together(pairs, device)

    def _together(self, pairs: Sequence[Pair], device: torch.device) -> PairBatch:
        sources, targets = (Ragged(side) for side in zip(*pairs, strict=True))
        return pair_batch(sources, targets, self.ends.start, device)

    def _pair(self, row: np.ndarray, lots: np.ndarray) -> Pair:
        spans = drawn_spans(len(row), self.spec.density, self.spec.mean_span, lots)
        read, said = corrupted(row.tolist(), spans, self.sentinels)
        return [*read, self.ends.end], [*said, self.ends.end]

    def weight(self, batch: PairBatch) -> int:
        return int(batch.count)

    def losses(self, model: Model, batch: PairBatch) -> Mapping[str, Tensor]:
        return {"loss": pair_loss(model, batch)}

    def judged(self, part: str) -> list[Pair]:
        """Every row of a part, windows one after another, with spans that are the same in every run."""
        rows, length = self.rows[part], self.spec.length
        if not self.by_line:
            cut = [rows[first : first + length] for first in range(0, len(rows), length)]
            rows = [row for row in cut if len(row) > 1]
        lots = draws(len(rows) * length, JUDGED_WITH, 0, stream=2).reshape(len(rows), length)
        return [self._pair(row, drawn) for row, drawn in zip(rows, lots, strict=True)]

    def evaluate(self, model: Model, part: str, device: torch.device, progress: Progress = quiet) -> dict[str, float]:
        """Loss per token of the answers, over all rows; and of the spans of up to three tokens how many come right."""
        pairs = sorted(self.judged(part), key=lambda pair: len(pair[0]))
        size = max(1, min(64, EVALUATED_AT_ONCE // (max(len(said) for _, said in pairs) * self.tokenizer.size)))
        nats, wanted = 0.0, min(len(pairs), self.spec.written)
        with evaluating(model):
            for first in range(0, len(pairs), size):
                some = pairs[first : first + size]
                nats += float(pair_loss(model, self._together(some, device)))
                progress(first + len(some), len(pairs) + wanted)
            chosen = [pairs[place * len(pairs) // wanted] for place in range(wanted)]
            said = written(model, [source for source, _ in chosen], self.ends)
        matches = [
            match for (_, true), tokens in zip(chosen, said, strict=True) for match in self._matches(true, tokens)
        ]
        progress(len(pairs) + wanted, len(pairs) + wanted)
        return {
            "loss": nats / sum(len(said) for _, said in pairs),
            "span_match": sum(matches) / max(1, len(matches)),
            "spans": float(len(matches)),
        }

    def _matches(self, true: Sequence[int], said: Sequence[int]) -> list[bool]:
        """For every short span of an answer whether what was written behind its sentinel is the same."""
        wanted, have = (self._behind(tokens) for tokens in (true[:-1], said))
        return [have.get(sentinel) == span for sentinel, span in wanted.items() if 0 < len(span) <= SHORT]

    def _behind(self, tokens: Sequence[int]) -> dict[int, list[int]]:
        known, found, current = set(self.sentinels), {}, []
        for token in tokens:
            if token in known:
                current = found.setdefault(token, [])
            else:
                current.append(token)
        return found

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)


def _texts(part: Any) -> Sequence[str]:
    """Documents, or the lines of both sides."""
    return part.documents if hasattr(part, "documents") else [*part.sources, *part.targets]
