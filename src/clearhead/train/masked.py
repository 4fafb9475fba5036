"""Masked words and next sentences: a BERT fills what was hidden from it, and says whether two texts belong together.

Devlin et al. 2019: of the tokens of a row 15% are chosen; of these 80% become [MASK], 10% a random word, 10% stay, and
the model is asked for all of them. A row is [CLS] A [SEP] B [SEP]; half the time B is what follows A in its document,
else it comes from another one. Departures: A and B meet at a random place between two sentences, A has from a quarter
to three quarters of the room and begins with a sentence where it can, and B is cut where the row is full; rows are
drawn anew all the time, not ten times each beforehand. Both losses count alike: that of the sentences is weighted by
the masked words of a full row, so that sums over any number of rows and processes add up.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..data.learn_tokenizer import learn_tokenizer
from ..data.text_files import require
from ..data.tokenizers import Tokenizer
from ..models import Model
from ..models.bert import BERT, BERTConfig
from .ngrams import WordModel
from .scores import wilson
from .task import Batching, Progress, Spec, Task, evaluating, quiet
from .text_sources import (
    EVALUATED_AT_ONCE,
    check_share,
    checkpoint_tokenizer,
    config_of,
    draws,
    is_new,
    loaded_model,
    new_model,
    running_text,
    shares,
)
from .token_loss import token_loss, word_logits

SHARE, AS_MASK, AS_RANDOM = 0.15, 0.8, 0.1
FOLLOWS, RANDOM = 0, 1  # the two answers, in the order of the authors' head
NEEDED = ("cls", "sep", "mask", "pad")
JUDGED_WITH = 2**63 - 25  # the seed of an evaluation's masks: the same ones in every run
_SENTENCE_END = re.compile(r"(?<=[.!?।…])[\"'”’»)\]]*\s+|\n+")


@dataclass(frozen=True, kw_only=True)
class MaskedSpec(Spec):
    """data        the name of a set of running text, or files and folders of text
    folder      where named sets lie; options: of the set's reader
    valid, test your own files for these; without valid, a tenth is held out
    vocabulary  of the WordPiece tokenizer that is learnt from the training part; a checkpoint has its own
    lowercase   whether that tokenizer reads everything in lower case
    length      tokens of a row, the model's context unless given
    """

    kind: ClassVar[str] = "masked"
    data: str | tuple[str, ...]
    folder: str | None = None
    options: Mapping[str, Any] | None = None
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    vocabulary: int | None = None
    lowercase: bool = False
    length: int | None = None

    def check(self) -> None:
        self.require_sizes(*(name for name in ("vocabulary", "length") if getattr(self, name) is not None))
        self.require(self.length is None or self.length >= 8, f"a row needs at least 8 tokens, not {self.length}")

    def open(self) -> Task:
        return Masked(self)


def sentences(text: str) -> list[str]:
    """A text cut at the ends of lines, and behind full stops, question and exclamation marks before a space."""
    begins = [0, *(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]
    cut = (text[first:last].strip() for first, last in pairwise(begins))
    return [sentence for sentence in cut if sentence]


@dataclass(frozen=True)
class Sentences:
    """All tokens of a part. A border is a place where a sentence ends and the next one of its document begins."""

    numbers: np.ndarray
    borders: np.ndarray
    of_document: np.ndarray  # for each border
    edges: np.ndarray  # where documents begin, and where the last one ends

    @classmethod
    def of(cls, documents: Sequence[str], tokenizer: Tokenizer) -> "Sentences":
        numbers: list[int] = []
        borders: list[tuple[int, int]] = []
        edges = [0]
        for text in documents:
            for sentence in sentences(text):
                if len(numbers) > edges[-1] and (not borders or borders[-1][0] < len(numbers)):
                    borders.append((len(numbers), len(edges) - 1))
                numbers += tokenizer.ids(sentence, special=False)
            if borders and borders[-1][0] == len(numbers):
                borders.pop()  # its last sentence had no token
            edges.append(len(numbers))
        columns = np.array(borders, np.int64).reshape(-1, 2)
        return cls(np.array(numbers, np.int32), columns[:, 0], columns[:, 1], np.array(edges, np.int64))

    def pair(self, border: int, other: int, first: int, room: int) -> tuple[np.ndarray, np.ndarray]:
        """Up to `first` tokens before a border, whole sentences if possible, and behind the other what fits beside."""
        here, begin = self.borders[border], self.edges[self.of_document[border]]
        earliest = max(begin, here - first)
        whole = self.borders[np.searchsorted(self.borders, earliest) :][0]  # there is one: `here` at the latest
        start = earliest if earliest == begin or whole == here else whole
        there, end = self.borders[other], self.edges[self.of_document[other] + 1]
        return self.numbers[start:here], self.numbers[there : min(end, there + room - (here - start))]

    def elsewhere(self, border: int, drawn: int) -> int:
        """A border in another document; in another place where there is one document alone."""
        low, high = np.searchsorted(self.of_document, [self.of_document[border], self.of_document[border] + 1])
        if high - low == len(self.borders):
            low, high = border, border + 1
        place = drawn % int(len(self.borders) - (high - low))
        return int(place if place < low else place + high - low)


class MaskedBatch(NamedTuple):
    """ids, segments (B,L), lengths (B,); which places (B,P) are asked for, their words and weights; who follows (B,).

    P is the same for every batch: rows with fewer masked words have places of weight 0.
    """

    ids: Tensor
    lengths: Tensor
    segments: Tensor
    places: Tensor
    words: Tensor
    weights: Tensor
    follows: Tensor
    count: int


class Masked:
    metric, higher_is_better = "loss", False

    def __init__(self, spec: MaskedSpec) -> None:
        self.spec = spec
        config = config_of(spec, BERTConfig, "masked words", task="pretrain")
        dataset = running_text(spec.data, spec.folder, spec.options, spec.valid, spec.test)
        require("train" in dataset.parts, f"{dataset.name} has no train part")
        self.tokenizer = self._tokenizer(dataset.parts["train"].documents, config)
        special = self.tokenizer.special
        for role in NEEDED:
            require(role in special, f"masked words need a tokenizer with a {role} token, which {spec.model} has not")
        self.special = special
        ordinary = set(self.tokenizer.vocabulary.values()) - set(special.values())
        self.ordinary = np.array(sorted(ordinary), np.int64)
        self.length = spec.length or config.context
        require(self.length <= config.context, f"rows of {self.length} tokens don't fit a context of {config.context}")
        self.most = max(1, round(SHARE * (self.length - 3)))  # masked words of a full row
        self.texts = {n: Sentences.of(part.documents, self.tokenizer) for n, part in dataset.parts.items()}
        for name, text in self.texts.items():
            require(len(text.borders) > 1, f"{dataset.name}: {name} has no two places between sentences")
        self.parts = tuple(name for name in self.texts if name != "train")
        sizes = ", ".join(f"{n} {len(text.numbers):,} in {len(text.borders):,}" for n, text in self.texts.items())
        told = f"{self.tokenizer.size:,} tokens in the vocabulary; tokens and places between sentences: {sizes}"
        self.notes = (*dataset.notes, told)

    def _tokenizer(self, documents: Sequence[str], config: BERTConfig) -> Tokenizer:
        if not is_new(self.spec):
            require(self.spec.vocabulary is None, f"{self.spec.model} has a tokenizer of its own: leave out vocabulary")
            return checkpoint_tokenizer(self.spec, None, config.vocab)
        return learn_tokenizer(documents, "wordpiece", self.spec.vocabulary, lowercase=self.spec.lowercase)

    def model(self, seed: int) -> Model:
        if is_new(self.spec):
            return new_model(self.spec, seed, vocab=self.tokenizer.size, task="pretrain")
        return loaded_model(self.spec, task="pretrain")

    def batches_per_epoch(self, batching: Batching) -> float:
        return len(self.texts["train"].numbers) / (self.length * batching.size)

    def batch(self, number: int, batching: Batching, rank: int, world: int, device: torch.device) -> MaskedBatch:
        check_share(batching.size, world)
        text = self.texts["train"]
        chosen = draws(batching.size, batching.seed, number, stream=1) % np.uint64(len(text.borders))
        return self._batch(text, chosen.astype(np.int64), batching.seed, number, slice(rank, None, world), device)

    def _batch(
        self, text: Sentences, borders: np.ndarray, seed: int, step: int, share: slice, device: torch.device
    ) -> MaskedBatch:
        """Rows around these borders, and of them a process's share: all is drawn for the whole batch, then shared."""
        size = len(borders), self.length
        follows = np.where(shares(size[0], seed, step, stream=2) < 0.5, FOLLOWS, RANDOM)
        firsts, others = shares(size[0], seed, step, stream=3), draws(size[0], seed, step, stream=4)
        ids, segments = np.full(size, self.special["pad"], np.int64), np.zeros(size, np.int64)
        may = np.zeros(size, bool)
        lengths = np.zeros(size[0], np.int64)
        room = self.length - 3
        for row, border in enumerate(borders.tolist()):
            other = border if follows[row] == FOLLOWS else text.elsewhere(border, int(others[row]))
            first, second = text.pair(border, other, max(1, int(room * (0.25 + 0.5 * firsts[row]))), room)
            sep, middle = self.special["sep"], len(first) + 2
            lengths[row] = end = middle + len(second) + 1
            ids[row, :end] = [self.special["cls"], *first, sep, *second, sep]
            segments[row, middle:end] = 1
            may[row, 1 : middle - 1] = may[row, middle : end - 1] = True
        lots = [draws(size[0] * size[1], seed, step, stream).reshape(size) for stream in (5, 6, 7)]
        read, places, words, weights = self.masked(ids, may, *lots)
        columns = (read, lengths, segments, places, words, weights, follows)
        tensors = [torch.from_numpy(column[share]).to(device) for column in columns]
        return MaskedBatch(*tensors, count=int(weights[share].sum()))

    def masked(
        self, ids: np.ndarray, may: np.ndarray, order: np.ndarray, fate: np.ndarray, word: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Hide words where it `may` be: what is read instead, the places (B,P), their true words, their weights.

        The other three are draws below 2^64 for every place: in which order places are chosen, what becomes of a
        chosen one, and by which word it is replaced if it is.
        """
        wanted = np.clip(np.round(SHARE * may.sum(1)), 1, self.most).astype(np.int64)
        ranked = np.argsort(np.where(may, order >> np.uint64(1), np.uint64(2**64 - 1)), axis=1, kind="stable")
        chosen = np.arange(self.most) < wanted[:, None]
        places = np.where(chosen, ranked[:, : self.most], 0)
        words = np.take_along_axis(ids, places, 1)
        share = np.take_along_axis(fate, places, 1) / 2.0**64
        drawn = self.ordinary[np.take_along_axis(word, places, 1) % np.uint64(len(self.ordinary))]
        shown = np.where(share < AS_MASK, self.special["mask"], np.where(share < AS_MASK + AS_RANDOM, drawn, words))
        read = ids.copy()
        rows = np.nonzero(chosen)[0]
        read[rows, places[chosen]] = shown[chosen]
        return read, places, words, chosen.astype(np.float32)

    def weight(self, batch: MaskedBatch) -> int:
        return batch.count

    def losses(self, model: Model, batch: MaskedBatch) -> Mapping[str, Tensor]:
        """ "words" and "sentences" beside their sum; only [CLS] and the places asked for go through the heads."""
        hidden, asked = self._hidden(model, batch)
        words = token_loss(model, asked, batch.words, batch.weights)
        following = self.most * F.cross_entropy(follow_logits(model, hidden), batch.follows, reduction="sum")
        return {"loss": words + following, "masked_loss": words, "next_sentence_loss": following}

    def _hidden(self, model: Model, batch: MaskedBatch) -> tuple[Tensor, Tensor]:
        hidden = model.hidden(batch.ids, batch.lengths, batch.segments)
        return hidden, hidden.gather(1, batch.places[..., None].expand(-1, -1, hidden.shape[-1]))

    def evaluate(self, model: Model, part: str, device: torch.device, progress: Progress = quiet) -> dict[str, float]:
        """On masks that are the same in every run, at places about a row apart; counting models on the same masks.

        The interval is Wilson's, of 95%. The bigram guesses by the left neighbour as the model sees it.
        """
        text, sums = self.texts[part], np.zeros(7)
        every = np.searchsorted(text.borders, np.arange(0, len(text.numbers), self.length))
        borders = np.unique(np.minimum(every, len(text.borders) - 1))
        size = max(1, min(64, EVALUATED_AT_ONCE // (self.most * self.tokenizer.size)))
        with evaluating(model):
            for step, first in enumerate(range(0, len(borders), size)):
                some = borders[first : first + size]
                sums += self._judged(model, self._batch(text, some, JUDGED_WITH, step, slice(None), device))
                progress(first + len(some), len(borders))
        words, words_loss, sentences_loss, right, followed, unigram, bigram = sums.tolist()
        count = len(borders)
        low, high = wilson(int(followed), count)
        return {
            "loss": words_loss / words + sentences_loss / count,
            "masked_loss": words_loss / words,
            "masked_accuracy": right / words,
            "unigram_accuracy": unigram / words,
            "bigram_accuracy": bigram / words,
            "next_sentence_accuracy": followed / count,
            "next_sentence_low": low,
            "next_sentence_high": high,
        }

    def _judged(self, model: Model, batch: MaskedBatch) -> np.ndarray:
        """How many words were asked for, and summed over them and over the rows what `evaluate` tells."""
        hidden, asked = self._hidden(model, batch)
        counted, answers = batch.weights.bool(), follow_logits(model, hidden)
        logits, words = word_logits(model, asked)[counted].float(), batch.words[counted]
        left = batch.ids.gather(1, (batch.places - 1).clamp(min=0))[counted].cpu().numpy()
        true = words.cpu().numpy()
        return np.array(
            [
                len(words),
                float(F.cross_entropy(logits, words, reduction="sum")),
                float(F.cross_entropy(answers, batch.follows, reduction="sum")),
                int((logits.argmax(-1) == words).sum()),
                int((answers.argmax(-1) == batch.follows).sum()),
                int((self.counted.by_frequency(len(true)) == true).sum()),
                int((self.counted.by_left_neighbour(left) == true).sum()),
            ]
        )

    @cached_property
    def counted(self) -> WordModel:
        """The unigram and bigram of the training part."""
        text = self.texts["train"]
        documents = (text.numbers[first:last] for first, last in pairwise(text.edges))
        return WordModel(documents, self.tokenizer.size)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)


def follow_logits(model: Model, hidden: Tensor) -> Tensor:
    """(B,L,width) -> (B,2) in fp32: whether the second text follows the first, read at [CLS]."""
    assert isinstance(model, BERT)
    return model.follows(model.pooled(hidden)).float()
