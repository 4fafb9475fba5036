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
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..data.buckets import EMPTY, Shape, batches, even_batches
from ..data.kinds import Dataset, Parallel
from ..data.learn_tokenizer import learn_tokenizer
from ..data.sentencepieces import MarianTokenizer
from ..data.sets import open_set
from ..data.text_files import require
from ..data.token_file import tokenizer_checksum
from ..data.tokenizers import Tokenizer
from ..decode import Beams, Limits, beam_search, collect, generate
from ..errors import ClearheadError
from ..models import Model
from ..models.base import LARGEST
from ..models.t5 import T5Config
from ..models.transformer import TransformerConfig
from .task import Batching, Progress, Spec, Task, evaluating, quiet
from .text_sources import (
    EVALUATED_AT_ONCE,
    checkpoint_tokenizer,
    config_of,
    is_new,
    loaded_model,
    new_model,
    parallel_text,
)
from .token_loss import token_loss

TOKENIZERS = ("characters", "words", "bpe")
SIZES = ("tokens", "sentences")
SCORES = ("exact_match", "bleu", "bleu_lower", "chrf")
STRIDE = 8  # both sides are filled up to a multiple of this: few shapes
WRITTEN_AT_ONCE = 64
LOWEST = "loss"


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


class PairBatch(NamedTuple):
    """source (B,S), its lengths (B,); what the decoder reads and what it shall say (B,T), and which of that counts.

    `count` says how many targets count: a tensor that stays on the CPU, so that nobody waits for a device to know it,
    and a recorded update (recorded.py) does not depend on it.
    """

    source: Tensor
    lengths: Tensor
    target: Tensor
    labels: Tensor
    weights: Tensor
    count: Tensor


Row = Sequence[int]


class Ragged:
    """Rows of any lengths in one array, so that a batch of them is one look-up."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.lengths = np.array([len(row) for row in rows], np.int64)
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.numbers = np.fromiter(chain.from_iterable(rows), np.int64, count=int(self.lengths.sum()))

    def filled(
        self, rows: Sequence[int] | None = None, context: int | None = None, width: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """These rows (all unless given) filled up with 0 to the width or a multiple of STRIDE, and their lengths."""
        chosen = np.arange(len(self.lengths)) if rows is None else np.asarray(rows)
        starts, lengths = self.starts[chosen], np.where(chosen == EMPTY, 0, self.lengths[chosen])
        longest = int(lengths.max())
        places = np.arange(width or max(longest, min(-(-longest // STRIDE) * STRIDE, context or LARGEST)))
        inside = places < lengths[:, None]
        filled = np.where(inside, self.numbers[np.where(inside, starts[:, None] + places, 0)], 0)
        return torch.from_numpy(filled), torch.from_numpy(lengths)


def pair_batch(
    sources: Ragged,
    targets: Ragged,
    start: int,
    device: torch.device,
    rows: Sequence[int] | None = None,
    context: int | None = None,
    shape: Shape | None = None,
) -> PairBatch:
    """Pairs of rows as one batch. The decoder reads the start token and then the target but for its last.

    A row that is not there has a source of one token and a target of none.
    """
    widths = shape or (None, None)
    source, lengths = sources.filled(rows, context, widths[0])
    labels, ends = targets.filled(rows, context, widths[1])
    read = torch.cat([torch.full((len(labels), 1), start), labels[:, :-1]], 1)
    weights = (torch.arange(labels.shape[1]) < ends[:, None]).float()
    tensors = (sent(part, device) for part in (source, lengths.clamp(min=1), read, labels, weights))
    return PairBatch(*tensors, count=ends.sum())


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device, without waiting for a GPU that is busy with the update before."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def pair_loss(model: Model, batch: PairBatch, smoothing: float = 0.0) -> Tensor:
    hidden = model.hidden(batch.source, batch.target, batch.lengths)
    return token_loss(model, hidden, batch.labels, batch.weights, smoothing)


@dataclass(frozen=True)
class Ends:
    """Numbers that begin and end a target, and those that are never written."""

    start: int
    end: int
    never: frozenset[int]

    @classmethod
    def of(cls, config: Any, target: Tokenizer) -> "Ends":
        end = target.special.get("eos") if config.end_token is None else config.end_token
        if config.start_token is None or end is None:
            raise ClearheadError("the model's config names no start_token or no end_token: it can't learn to translate")
        nameless = set(range(getattr(config, "target_vocab", None) or config.vocab)) - set(target.vocabulary.values())
        padding = {config.pad_token, target.special.get("pad")} - {None, end}
        return cls(config.start_token, end, frozenset(nameless | padding))


def written(model: Any, sources: Sequence[Row], ends: Ends, beams: int = 1, penalty: float = 1.0) -> list[list[int]]:
    """What the model writes for each source, greedily or by beam search, without the token that ends it."""
    found: dict[int, list[int]] = {}
    order = sorted(range(len(sources)), key=lambda row: len(sources[row]))
    context = getattr(model.config, "context", None)
    for first in range(0, len(order), WRITTEN_AT_ONCE):
        rows = order[first : first + WRITTEN_AT_ONCE]
        given = [sources[row] for row in rows]
        length = min(2 * max(map(len, given)) + 10, context or math.inf)
        stop = frozenset([ends.end])
        if beams == 1:
            steps = generate(model, given, Limits(int(length), stop, ends.never), prefix=[ends.start])
            tokens = [row.tokens for row in collect(len(given), steps)]
        else:
            wanted = Beams(beams, penalty, length=int(length))
            searches = beam_search(model, given, wanted, end=stop, never=ends.never, prefix=[ends.start])
            tokens = [list(search.finished[0].tokens) for search in searches]
        found |= {row: [t for t in said if t != ends.end] for row, said in zip(rows, tokens, strict=True)}
    return [found[row] for row in range(len(sources))]


def _one_after_another(parts: Sequence[Parallel]) -> Parallel:
    return Parallel(
        *([*chain.from_iterable(sides)] for sides in zip(*((p.sources, p.targets) for p in parts), strict=True))
    )


def scored(said: Sequence[str], true: Sequence[str], scores: Sequence[str]) -> dict[str, float]:
    """Exact match as a share of the lines; BLEU and chrF of the whole, as sacrebleu computes them (13a)."""
    figures: dict[str, float] = {}
    for score in scores:
        if score == "exact_match":
            figures[score] = sum(a.strip() == b.strip() for a, b in zip(said, true, strict=True)) / len(true)
        elif score == "chrf":
            figures[score] = _sacrebleu().corpus_chrf(list(said), [list(true)]).score
        else:
            lower = score == "bleu_lower"
            figures[score] = _sacrebleu().corpus_bleu(list(said), [list(true)], lowercase=lower).score
    return figures


def _times(wanted: str) -> tuple[str, int]:
    """`phrases*10` -> phrases, 10; a name alone is once."""
    name, star, times = wanted.partition("*")
    require(not star or (times.isdecimal() and int(times) > 0), f"{wanted!r} should be a set, or a set*how often")
    return name, int(times) if star else 1


def _sacrebleu() -> Any:
    try:
        import sacrebleu  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ClearheadError(
            "BLEU and chrF are computed by sacrebleu: pip install sacrebleu, or leave them out"
        ) from None
    return sacrebleu


class TranslationTask:
    def __init__(self, spec: TranslationSpec) -> None:
        self.spec = spec
        if set(spec.scores) - {"exact_match"}:
            _sacrebleu()
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
        self._kept: dict[str, tuple[Ragged, Ragged]] = {}
        sizes = f"{self.source.size:,}" + ("" if spec.joint else f" and {self.target.size:,}")
        told = f"{sizes} tokens in the vocabulary; pairs: "
        told += ", ".join(f"{name} {len(rows[0]):,}" for name, rows in self.rows.items())
        self.notes = (*dataset.notes, *joined, told, *dropped, *cut)

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
        sources, targets = ([len(row) for row in side] for side in self.rows["train"])
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
        sources, targets = self._packed(part)
        return pair_batch(sources, targets, self.ends.start, device, rows, self.context, shape)

    def _packed(self, part: str) -> tuple[Ragged, Ragged]:
        if part not in self._kept:
            sources, targets = self.rows[part]
            self._kept[part] = Ragged(sources), Ragged(targets)
        return self._kept[part]

    def weight(self, batch: PairBatch) -> int:
        return int(batch.count)

    def losses(self, model: Model, batch: PairBatch) -> Mapping[str, Tensor]:
        return {"loss": pair_loss(model, batch, self.spec.smoothing)}

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
