"""Translation: an encoder-decoder (or T5) reads a source and learns its target, token by token, the true ones given.

Batches hold pairs of about the same length; their size is counted in tokens, sources or targets, whichever are more,
or in sentences. Where `widths` are given there are as many shapes of batches as widths, so that a GPU may record an
update of each (`graph=true`). The loss of training may be smoothed (Vaswani et al. 2017: 0.1); that of an evaluation
never is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..data.buckets import Shape, batches, even_batches
from ..data.kinds import Dataset, Parallel
from ..data.learn_tokenizer import learn_tokenizer
from ..data.sentencepieces import MarianTokenizer
from ..data.sets import open_set
from ..data.text_files import require
from ..data.token_file import tokenizer_checksum
from ..data.tokenizers import Tokenizer
from ..models import Model
from ..models.base import LARGEST
from ..models.t5 import T5Config
from ..models.transformer import TransformerConfig
from .consistency import agreeing_loss, twice
from .pairs import CPU, PairBatch, Ragged, Row, pair_batch, pair_loss
from .task import Batching, Progress, Spec, Task, evaluating, quiet
from .text_sources import (
    EVALUATED_AT_ONCE,
    TOKENIZERS,
    checkpoint_tokenizer,
    config_of,
    is_new,
    loaded_model,
    new_model,
    parallel_text,
)
from .written import SCORES, Ends, sacrebleu_module, scored, signatures, written

SIZES = ("tokens", "sentences")
LOWEST = "loss"
RESIDENT = 1 << 27  # tokens of a part that may lie on a GPU, at four bytes each


@dataclass(frozen=True, kw_only=True)
class TranslationSpec(Spec):
    """data        the name of a set of parallel text, or two files: the source and the target
    folder      where named sets lie; options: of the set's reader, such as source and target, or directions
    valid, test your own two files for these; without valid, a tenth is held out
    more        other named sets in the same languages whose pairs are learnt too: their train part, or where they have
                none all of their parts; `phrases*10` is learnt ten times over
    tests       other named sets in the same languages whose test parts are judged too, under their names
    tokenizer   bpe (unless given), characters or words, learnt from the training part; a checkpoint has its own
    vocabulary  how many tokens it may have, of each side where they are separate
    joint       one vocabulary for both sides
    lowercase   all texts are made lower case, so that figures are of lower-cased text too
    prefix      put before every source: T5 is told its task so
    longest     training pairs with more tokens on a side are left out
    counted     what the size of a batch counts: tokens or sentences
    smallest    pairs that a batch has at least: as many processes can share it
    widths      the sources of a training batch are filled up to one of these, from narrow to wide, and its targets to
                the one of target_widths at the same place, the same unless given. All batches of a width have as many
                rows: what a width lacks to its last batch is filled with rows that don't count. Training pairs that
                are longer than the last widths are left out
    smoothing   of the labels in training
    consistency  how much it counts that two passes under different dropout agree (see consistency.py)
    scores      what is judged by writing: exact_match, bleu, bleu_lower (lower-cased), chrf; in per cent but the first
    metric      the figure that says which weights are best: loss, or one of the scores
    beams       1 writes greedily; length_penalty: of more than one
    written     how many pairs of valid are written, evenly spread; all unless given. Of a test, always all
    """

    kind: ClassVar[str] = "translation"
    data: str | tuple[str, ...]
    folder: str | None = None
    options: Mapping[str, Any] | None = None
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    tokenizer: str | None = None
    vocabulary: int | None = None
    joint: bool = True
    lowercase: bool = False
    prefix: str = ""
    longest: int | None = None
    counted: str = "tokens"
    smallest: int = 8
    widths: tuple[int, ...] = ()
    target_widths: tuple[int, ...] = ()
    smoothing: float = 0.0
    consistency: float = 0.0
    scores: tuple[str, ...] = ("exact_match",)
    metric: str = LOWEST
    beams: int = 1
    length_penalty: float = 1.0
    written: int | None = None

    def check(self) -> None:
        if self.tokenizer is not None:
            self.require_choice("tokenizer", TOKENIZERS)
        self.require_choice("counted", SIZES)
        self.require_probabilities("smoothing")
        self.require_weights("consistency")
        given = (name for name in ("vocabulary", "longest", "written") if getattr(self, name) is not None)
        self.require_sizes("smallest", "beams", *given)
        for name in ("widths", "target_widths"):
            given = getattr(self, name)
            known = isinstance(given, tuple) and all(type(width) is int and width > 0 for width in given)
            good = known and list(given) == sorted(given)
            self.require(good, f"{name} must be whole numbers from 1, from narrow to wide, not {given!r}")
        paired = len(self.target_widths) in (0, len(self.widths))
        self.require(paired, f"there are {len(self.widths)} widths and {len(self.target_widths)} target_widths")
        for score in self.scores:
            self.require(score in SCORES, f"scores are {', '.join(SCORES)}, not {score!r}")
        known = self.metric in (LOWEST, *self.scores)
        self.require(known, f"metric must be {' or '.join((LOWEST, *self.scores))}, not {self.metric!r}")

    @property
    def shapes(self) -> list[Shape]:
        """How wide both sides of a training batch may be."""
        return list(zip(self.widths, self.target_widths or self.widths, strict=True))

    def open(self) -> Task:
        return TranslationTask(self)


def _one_after_another(parts: Sequence[Parallel]) -> Parallel:
    return Parallel(
        *([*chain.from_iterable(sides)] for sides in zip(*((p.sources, p.targets) for p in parts), strict=True))
    )


def _times(wanted: str) -> tuple[str, int]:
    """`phrases*10` -> phrases, 10; a name alone is once."""
    name, star, times = wanted.partition("*")
    require(not star or (times.isdecimal() and int(times) > 0), f"{wanted!r} should be a set, or a set*how often")
    return name, int(times) if star else 1


class TranslationTask:
    def __init__(self, spec: TranslationSpec) -> None:
        self.spec = spec
        if set(spec.scores) - {"exact_match"}:
            sacrebleu_module()
        self.metric, self.higher_is_better = spec.metric, spec.metric != LOWEST
        config = config_of(spec, (TransformerConfig, T5Config), "translation")
        dataset = parallel_text(spec.data, spec.folder, spec.options, spec.valid, spec.test)
        parts, joined = self._joined(dataset)
        self.texts = {name: self._prepared(part) for name, part in parts.items()}
        self.source, self.target = self._tokenizers(config)
        self.settled = self._settled(config) if is_new(spec) else {}
        final = config.with_changes(**self.settled)
        self.ends = Ends.of(final, self.target)
        self.context = getattr(final, "context", None)
        widest = max((0, *spec.widths, *spec.target_widths))
        told = f"rows of {widest} tokens don't fit the model's context of {self.context}: leave such widths out"
        require(widest <= (self.context or LARGEST), told)
        self.rows = {name: self._rows(part) for name, part in self.texts.items()}
        dropped, cut = self._fit()
        self.parts = tuple(name for name in self.rows if name != "train")
        self._epoch = lru_cache(maxsize=2)(self._listed)
        self._lengths = [[len(row) for row in side] for side in self.rows.get("train", ())]
        self._kept: dict[tuple[str, torch.device], tuple[Ragged, Ragged]] = {}
        sizes = f"{self.source.size:,}" + ("" if spec.joint else f" and {self.target.size:,}")
        told = f"{sizes} tokens in the vocabulary; pairs: "
        told += ", ".join(f"{name} {len(rows[0]):,}" for name, rows in self.rows.items())
        self.notes = (*dataset.notes, *joined, told, *dropped, *cut, *signatures(spec.scores))

    def _prepared(self, part: Parallel) -> Parallel:
        sources, targets = ([t.lower() if self.spec.lowercase else t for t in s] for s in (part.sources, part.targets))
        return Parallel([self.spec.prefix + text for text in sources], targets)

    def _joined(self, dataset: Dataset[Parallel]) -> tuple[dict[str, Parallel], tuple[str, ...]]:
        """The parts with those of other sets in the same languages: more to learn from, and more tests."""
        parts, notes = dict(dataset.parts), []
        for wanted in self.spec.more:
            name, times = _times(wanted)
            other = self._beside(name, dataset)
            learnt = [other.parts["train"]] if "train" in other.parts else [*other.parts.values()]
            known = [parts["train"]] if "train" in parts else []
            parts["train"] = _one_after_another([*known, *learnt * times])
            often = f", each {times} times" if times > 1 else ""
            notes.append(f"{sum(map(len, learnt)):,} pairs of {name} join train{often}")
        for name in self.spec.tests:
            other = self._beside(name, dataset)
            whole = name in (_times(wanted)[0] for wanted in self.spec.more) and "train" not in other.parts
            require("test" in other.parts and not whole, f"{name} has no test part that is not learnt")
            parts[name] = other.parts["test"]
        order = sorted(parts, key=lambda part: part != "train")
        return {part: parts[part] for part in order}, tuple(notes)

    def _beside(self, name: str, dataset: Dataset[Parallel]) -> Dataset[Parallel]:
        source, target = dataset.languages or ("source", "target")
        other = open_set(name, self.spec.folder, source=source, target=target)
        require(other.kind == "parallel", f"{name} is not parallel text")
        return other

    def _tokenizers(self, config: Any) -> tuple[Tokenizer, Tokenizer]:
        spec = self.spec
        if not is_new(spec):
            sizes = config.vocab, getattr(config, "target_vocab", None) or config.vocab
            source, target = (
                checkpoint_tokenizer(spec, spec.tokenizer, size, side)
                for size, side in zip(sizes, ("source", "target"), strict=True)
            )
            return source, target
        require("train" in self.texts, f"{spec.data} has no train part to learn a vocabulary from")
        train, kind = self.texts["train"], spec.tokenizer or "bpe"
        unknown = {} if kind == "bpe" else {"unk": "<unk>"}
        begin = {} if isinstance(config, T5Config) else {"bos": "<start>"}  # T5 begins with its padding
        special = {"pad": "<pad>", **unknown, **begin, "eos": "<end>"}
        options = {"lowercase": spec.lowercase and kind == "bpe", "closing": True}
        if spec.joint:
            both = learn_tokenizer([*train.sources, *train.targets], kind, spec.vocabulary, special, **options)
            return both, both
        require(not isinstance(config, T5Config), "a T5 has one table of tokens: its vocabulary is joint")
        source, target = (
            learn_tokenizer(side, kind, spec.vocabulary, special, **options) for side in (train.sources, train.targets)
        )
        return source, target

    def _settled(self, config: Any) -> dict[str, Any]:
        """The fields that the vocabularies settle."""
        special = self.target.special
        fields: dict[str, Any] = {"pad_token": special["pad"], "end_token": special["eos"], "vocab": self.source.size}
        fields["start_token"] = special.get("bos", special["pad"])
        if not self.spec.joint:
            fields["target_vocab"] = self.target.size
            if config.tied == "all":
                fields["tied"] = "decoder"
        return fields

    def _rows(self, part: Parallel) -> tuple[list[Row], list[Row]]:
        sources: list[Row] = [self.source.ids(text) for text in part.sources]
        return sources, [[*self.target.ids(text, special=False), self.ends.end] for text in part.targets]

    def _fit(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Training pairs that are too long are left out; in other parts they are cut at the model's context."""
        limit = min(self.spec.longest or math.inf, self.context or math.inf)
        widest = self.spec.shapes[-1] if self.spec.shapes else (limit, limit)
        notes: tuple[tuple[str, ...], ...] = ((), ())
        for name, (sources, targets) in self.rows.items():
            most = self.context or math.inf
            first, second = (min(limit, width) for width in widest) if name == "train" else (most, most)
            fits = [len(s) <= first and len(t) <= second for s, t in zip(sources, targets, strict=True)]
            over = len(fits) - sum(fits)
            if not over:
                continue
            if name == "train":
                kept = [[row for row, fit in zip(side, fits, strict=True) if fit] for side in (sources, targets)]
                sides = f"{first} tokens" if first == second else f"{first} and {second} tokens"
                require(all(kept), f"no training pair has at most {sides} on its two sides")
                self.rows[name] = kept[0], kept[1]
                notes = (f"{over} of {len(fits)} training pairs left out: more than {sides} on a side",), notes[1]
            else:
                self.rows[name] = [_cut(row, most) for row in sources], [_cut(row, most) for row in targets]
                notes = notes[0], (*notes[1], f"{over} of {len(fits)} pairs of {name} cut at {most} tokens")
        return notes

    def model(self, seed: int) -> Model:
        return new_model(self.spec, seed, **self.settled) if is_new(self.spec) else loaded_model(self.spec)

    def _listed(
        self, batching: Batching, epoch: int, rank: int = 0, world: int = 1
    ) -> Sequence[tuple[Shape | None, list[int]]]:
        """An epoch's batches: their rows, and the shape that they are filled up to, where one was asked for."""
        require("train" in self.rows, f"{self.spec.data} has no train part: it is for testing")
        sources, targets = self._lengths
        options = {"seed": batching.seed, "smallest": self.spec.smallest, "rank": rank, "world": world}
        options |= {self.spec.counted: batching.size, "epoch": epoch}
        if self.spec.shapes:
            return even_batches(sources, targets, self.spec.shapes, **options)
        return [(None, rows) for rows in batches(sources, targets, **options)]

    def batches_per_epoch(self, batching: Batching) -> float:
        return float(len(self._epoch(batching, 0)))

    def batch(self, number: int, batching: Batching, rank: int, world: int, device: torch.device) -> PairBatch:
        """Every epoch has as many batches as the first: how they are cut depends on the lengths alone."""
        epoch, place = divmod(number, len(self._epoch(batching, 0)))
        shape, rows = self._epoch(batching, epoch, rank, world)[place]
        return self._batch("train", rows, device, shape)

    def _batch(self, part: str, rows: Sequence[int], device: torch.device, shape: Shape | None = None) -> PairBatch:
        sources, targets = self._packed(part, device)
        return pair_batch(sources, targets, self.ends.start, device, rows, self.context, shape)

    def _packed(self, part: str, device: torch.device) -> tuple[Ragged, Ragged]:
        """A part's rows where its batches are made: on the device, unless they would take up much of it."""
        if (part, device) not in self._kept:
            sources, targets = self.rows[part]
            many = sum(map(len, chain(sources, targets))) > RESIDENT
            home = CPU if many else device
            self._kept[part, device] = Ragged(sources, home), Ragged(targets, home)
        return self._kept[part, device]

    def weight(self, batch: PairBatch) -> int:
        return int(batch.count)

    def losses(self, model: Model, batch: PairBatch) -> Mapping[str, Tensor]:
        if not self.spec.consistency:
            return {"loss": pair_loss(model, batch, self.spec.smoothing)}
        hidden = model.hidden(*map(twice, (batch.source, batch.target, batch.lengths)))
        shares = self.spec.smoothing, self.spec.consistency
        return agreeing_loss(model, hidden, batch.labels, batch.weights, *shares)

    def evaluate(self, model: Model, part: str, device: torch.device, progress: Progress = quiet) -> dict[str, float]:
        """Loss per token with the true targets given, over all pairs; the scores over what the model writes itself."""
        sources, targets = self.rows[part]
        lengths = [[len(row) for row in side] for side in (sources, targets)]
        nats, done, chosen = 0.0, 0, self._chosen(part)
        steps = len(sources) + (len(chosen) if self.spec.scores else 0)
        with evaluating(model):
            most = max(256, min(8192, EVALUATED_AT_ONCE // self.target.size))
            for rows in batches(*lengths, tokens=most):
                nats += float(pair_loss(model, self._batch(part, rows, device)))
                done += len(rows)
                progress(done, steps)
            figures = {"loss": nats / sum(map(len, targets))}
            if self.spec.scores:
                said = self.translations(model, [sources[row] for row in chosen])
                figures |= scored(said, [self.texts[part].targets[row] for row in chosen], self.spec.scores)
                progress(steps, steps)
        return figures

    def _chosen(self, part: str) -> list[int]:
        """Which pairs are written."""
        count = len(self.rows[part][0])
        wanted = count if self.spec.written is None or part != "valid" else min(count, self.spec.written)
        return [place * count // wanted for place in range(wanted)]

    def translations(self, model: Model, sources: Sequence[Row]) -> list[str]:
        found = written(model, sources, self.ends, self.spec.beams, self.spec.length_penalty)
        return [self.target.text(tokens) for tokens in found]

    def save(self, folder: Path) -> None:
        """The target's own vocabulary, where there is one, goes into a folder `target`."""
        self.source.save(folder)
        both = isinstance(self.source, MarianTokenizer)  # whose files hold both sides
        if not both and tokenizer_checksum(self.source) != tokenizer_checksum(self.target):
            self.target.save(folder / "target")


def _cut(row: Row, most: float) -> Row:
    """A row that is too long keeps the token that ends it."""
    return row if len(row) <= most else [*row[: int(most) - 1], row[-1]]
