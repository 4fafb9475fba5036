"""The next token: a GPT learns to go on with running text. (The game of sorting letters is in letters.py.)

Training reads windows of a stream in which every document is followed by the end token. An evaluation scores every
token of a part exactly once, the first behind an end token: windows are moved on by `stride` tokens, and of each only
what no window before has scored counts. Bits per byte are the nats of all tokens, ends among them, over the bytes of
the text; they are left out where a tokenizer loses letters or spaces and so would have it easier.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..data.learn_tokenizer import learn_tokenizer
from ..data.text_files import require
from ..data.token_file import open_tokens, tokenizer_checksum, windows, write_tokens
from ..data.tokenizers import Tokenizer
from ..models import Model
from ..models.gpt import GPTConfig
from .consistency import agreeing_loss, twice
from .letters import Letters
from .ngrams import LONGEST_ORDER, ByteModel
from .remembered import Scored, best_mixture, nats, remembered
from .spelling import spell
from .task import Batching, Progress, Spec, Task, evaluating, quiet
from .text_sources import (
    EVALUATED_AT_ONCE,
    TOKENIZERS,
    check_share,
    checkpoint_tokenizer,
    config_of,
    is_new,
    loaded_model,
    new_model,
    running_text,
)
from .token_batches import TokenBatch, next_token_losses, scored_windows
from .token_loss import word_logits

END = "<|endoftext|>"


@dataclass(frozen=True, kw_only=True)
class LanguageSpec(Spec):
    """data        the name of a set of running text, or files and folders of text; "letters" is the sorting game
    folder      where named sets lie; options: of the set's reader
    valid, test your own files for these; without valid, a tenth is held out
    tokenizer   characters, words or bpe (over bytes, unless given), learnt from the training part; a checkpoint has one
    vocabulary  how many tokens it may have
    window      tokens that are read at once, the model's context unless given; stride: of an evaluation, a window's
                length unless given
    noise       share of the tokens that are read in training and replaced by others, drawn as often as they occur there
                (Xie et al. 2017): a small text can't be learnt by heart then. What comes next stays what it is
    spelling    words that are spelt alike share weights while they are learnt (see spelling.py); for tokenizer words
    consistency  how much it counts that two passes under different dropout agree (see consistency.py)
    cache       a folder where the tokens are kept as files and mapped into memory; in memory without one
    remembers   how many tokens back an evaluation may look up what came next (see remembered.py), besides reading its
                window. Perplexity with and without is told; how much the memory has to say is chosen on valid
    beside      up to how many bytes a counting model takes together (see ngrams.py), whose bits per byte are told
                beside the model's own; none unless given
    """

    kind: ClassVar[str] = "language"
    data: str | tuple[str, ...]
    folder: str | None = None
    options: Mapping[str, Any] | None = None
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    tokenizer: str | None = None
    vocabulary: int | None = None
    window: int | None = None
    stride: int | None = None
    noise: float = 0.0
    spelling: bool = False
    consistency: float = 0.0
    cache: str | None = None
    remembers: int | None = None
    beside: int | None = None

    def check(self) -> None:
        if self.tokenizer is not None:
            self.require_choice("tokenizer", TOKENIZERS)
        given = ("vocabulary", "window", "stride", "remembers", "beside")
        self.require_sizes(*(name for name in given if getattr(self, name) is not None))
        self.require_probabilities("noise")
        self.require_weights("consistency")
        self.require(not self.spelling or self.tokenizer == "words", "spelling is for a new model with tokenizer=words")

    def open(self) -> Task:
        return Letters(self) if self.data == "letters" else Language(self)


class Language:
    metric, higher_is_better = "loss", False

    def __init__(self, spec: LanguageSpec) -> None:
        self.spec = spec
        require(is_new(spec) or not spec.spelling, "spelling is for a new model: a checkpoint has learnt its words")
        config = config_of(spec, GPTConfig, "the next token")
        dataset = running_text(spec.data, spec.folder, spec.options, spec.valid, spec.test)
        require("train" in dataset.parts, f"{dataset.name} has no train part")
        documents = {name: part.documents for name, part in dataset.parts.items()}
        self.tokenizer = self._tokenizer(documents["train"], config)
        self.end = self.tokenizer.special.get("eos")
        self.window = spec.window or config.context
        self.stride = spec.stride or self.window
        self._check_sizes(config)
        self.numbers = {name: self._numbers(dataset.name, name, texts) for name, texts in documents.items()}
        longest = min(self.window, len(self.numbers["train"]) - 1)
        require(longest == self.window, f"{dataset.name} has too few tokens for a window of {self.window}")
        self.parts = tuple(name for name in documents if name != "train")
        self.bytes = {name: _bytes(documents[name], self.tokenizer) for name in self.parts}
        self.counted = self._counted(documents)
        lossy = [name for name in self.parts if self.bytes[name] is None]
        notes = [f"no bits per byte: the tokenizer does not keep every letter and space of {', '.join(lossy)}"]
        sizes = ", ".join(f"{name} {len(numbers):,}" for name, numbers in self.numbers.items())
        told = f"{self.tokenizer.size:,} tokens in the vocabulary; tokens: {sizes}"
        read = f"evaluated in windows of {self.window} tokens, moved on by {self.stride}"
        self.notes = (*dataset.notes, told, read, *(notes if lossy else ()))

    def _tokenizer(self, documents: Sequence[str], config: GPTConfig) -> Tokenizer:
        if not is_new(self.spec):
            return checkpoint_tokenizer(self.spec, self.spec.tokenizer, config.vocab)
        kind = self.spec.tokenizer or "bpe"
        special = {"bos": END, "eos": END} | ({} if kind == "bpe" else {"unk": "<unk>"})
        return learn_tokenizer(documents, kind, self.spec.vocabulary, special)

    def _counted(self, documents: Mapping[str, Sequence[str]]) -> dict[str, float]:
        """Bits per byte of a model that only counts, by part, where one was asked for."""
        if self.spec.beside is None:
            return {}
        fits = self.spec.beside <= LONGEST_ORDER
        require(fits, f"a counting model takes at most {LONGEST_ORDER} bytes together, not {self.spec.beside}")
        counts = ByteModel(documents["train"], self.spec.beside)
        return {part: counts.bits_per_byte(documents[part]) for part in self.parts}

    def _check_sizes(self, config: GPTConfig) -> None:
        fits = self.window <= config.context
        require(fits, f"a window of {self.window} tokens doesn't fit the model's context of {config.context}")
        require(self.stride <= self.window, f"a stride of {self.stride} would skip tokens: at most {self.window}")

    def _numbers(self, name: str, part: str, documents: Sequence[str]) -> np.ndarray:
        """The stream of a part: mapped from a file that is named after all that decides it, or in memory."""
        if self.spec.cache is None:
            kind = np.uint16 if self.tokenizer.size <= 2**16 else np.uint32
            end = [] if self.end is None else [self.end]
            rows = [np.array([*self.tokenizer.ids(text, special=False), *end], kind) for text in documents]
            return np.concatenate(rows)
        known = hashlib.blake2b(f"{tokenizer_checksum(self.tokenizer)} {self.end}".encode(), digest_size=8)
        for text in documents:
            known.update(hashlib.blake2b(text.encode()).digest())
        file = Path(self.spec.cache) / f"{name}-{part}-{known.hexdigest()}.tokens"
        if file.exists():
            return open_tokens(file, self.tokenizer).numbers
        return write_tokens(file, documents, self.tokenizer, end=self.end).numbers

    def model(self, seed: int) -> Model:
        if not is_new(self.spec):
            return loaded_model(self.spec)
        model = new_model(self.spec, seed, vocab=self.tokenizer.size)
        if self.spec.spelling:
            special = self.tokenizer.special.values()
            words = {place: word for word, place in self.tokenizer.vocabulary.items() if place not in special}
            spell(model, [words.get(n) for n in range(self.tokenizer.size)], torch.Generator().manual_seed(seed))
        return model

    def batches_per_epoch(self, batching: Batching) -> float:
        return (len(self.numbers["train"]) - 1) / (self.window * batching.size)

    def batch(self, number: int, batching: Batching, rank: int, world: int, device: torch.device) -> TokenBatch:
        check_share(batching.size, world)
        read, comes = windows(self.numbers["train"], self.window, batching.seed, number, batching.size)
        if self.spec.noise:
            read = self._noised(read, batching.seed, number)
        ids, targets = (rows[rank::world].to(device) for rows in (read, comes))
        return TokenBatch(ids, targets, None, targets.numel())

    def _noised(self, ids: Tensor, seed: int, number: int) -> Tensor:
        """All processes draw for the whole batch, so that their shares are those of one."""
        digest = hashlib.blake2b(f"noise/{seed}/{number}".encode(), digest_size=8).digest()
        random = torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)
        train = self.numbers["train"]
        places = torch.randint(len(train), ids.shape, generator=random)
        drawn = torch.from_numpy(train[places.numpy()].astype(np.int64))
        return torch.where(torch.rand(ids.shape, generator=random) < self.spec.noise, drawn, ids)

    def weight(self, batch: TokenBatch) -> int:
        return batch.count

    def losses(self, model: Model, batch: TokenBatch) -> Mapping[str, Tensor]:
        if not self.spec.consistency:
            return next_token_losses(model, batch)
        hidden = model.hidden(twice(batch.ids))
        return agreeing_loss(model, hidden, batch.targets, batch.weights, 0.0, self.spec.consistency)

    def evaluate(self, model: Model, part: str, device: torch.device, progress: Progress = quiet) -> dict[str, float]:
        """loss in nats per token, perplexity, bits per byte; and over how many tokens, in which windows."""
        count = len(self._stream(part)) - 1
        with evaluating(model):
            if self.spec.remembers is None:
                total, more = self._nats(model, part, device, progress), {}
            else:
                scored = self._scored(model, part, device, progress)
                total, more = -scored.logprobs.double().sum().item(), self._remembered(model, part, scored, device)
        figures = {"loss": total / count, "perplexity": _perplexity(total, count)} | more
        size = self.bytes[part]
        if size is not None:
            figures["bits_per_byte"] = total / math.log(2) / size
        if part in self.counted:
            figures[f"{self.spec.beside}_gram_bits_per_byte"] = self.counted[part]
        return figures | {"tokens": float(count), "window": float(self.window), "stride": float(self.stride)}

    def _stream(self, part: str) -> np.ndarray:
        """A part as it is scored: the first token stands behind an end token."""
        stream = self.numbers[part].astype(np.int64)
        return stream if self.end is None else np.concatenate([[self.end], stream])

    def _windows(self, part: str, device: torch.device, progress: Progress) -> Iterator[TokenBatch]:
        stream = self._stream(part)
        rows, done = max(1, min(64, EVALUATED_AT_ONCE // (self.window * self.tokenizer.size))), 0
        for batch in scored_windows(stream, self.window, self.stride, rows, device):
            yield batch
            done += batch.count
            progress(done, len(stream) - 1)

    def _nats(self, model: Model, part: str, device: torch.device, progress: Progress) -> float:
        return sum(float(next_token_losses(model, b)["loss"]) for b in self._windows(part, device, progress))

    def _scored(self, model: Model, part: str, device: torch.device, progress: Progress = quiet) -> Scored:
        """Every token of a part with the state it was scored from, in order."""
        kept: list[tuple[Tensor, ...]] = []
        for batch in self._windows(part, device, progress):
            assert batch.weights is not None
            chosen, hidden = batch.weights > 0, model.hidden(batch.ids)
            logprobs = word_logits(model, hidden).float().log_softmax(-1).gather(-1, batch.targets[..., None])[..., 0]
            kept.append((hidden[chosen].float(), batch.targets[chosen], logprobs[chosen]))
        return Scored(*(torch.cat(tensors) for tensors in zip(*kept, strict=True)))

    def _remembered(self, model: Model, part: str, scored: Scored, device: torch.device) -> dict[str, float]:
        size = self.spec.remembers
        assert size is not None
        mixture = best_mixture(scored if part == "valid" else self._scored(model, "valid", device), size)
        mixed = nats(scored, remembered(scored, size, mixture.sharpness), mixture.share)
        told = {"share": mixture.share, "sharpness": mixture.sharpness, "tokens": float(size)}
        return {"memory_perplexity": _perplexity(mixed, len(scored.tokens))} | {
            f"memory_{n}": v for n, v in told.items()
        }

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)


def _perplexity(nats: float, count: int) -> float:
    return math.exp(min(nats / count, 700.0))


def _bytes(documents: Sequence[str], tokenizer: Tokenizer) -> int | None:
    """How many bytes the documents have; None where the tokenizer does not give them back letter by letter."""
    for text in documents:
        if tokenizer.text(tokenizer.ids(text, special=False), skip_special=False) != text:
            return None
    return sum(len(text.encode()) for text in documents)
