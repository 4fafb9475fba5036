"""The game of sorting letters, for the smallest GPT: six letters A, B, C, and behind them the same letters sorted."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..data.embedded import ALPHABET, WORD_LENGTH, letters
from ..data.kinds import Parallel
from ..data.text_files import require
from ..data.text_splits import with_validation
from ..data.words import character_tokenizer
from ..decode import Limits, collect, generate
from ..models import Model
from ..models.gpt import GPTConfig
from .task import Batching, Progress, evaluating, quiet
from .text_sources import check_share, config_of, is_new, loaded_model, new_model, shuffled
from .token_batches import TokenBatch, next_token_losses

if TYPE_CHECKING:
    from .language import LanguageSpec

LETTERS_LENGTH = 2 * WORD_LENGTH - 1  # the last letter of the answer is written and never read
TEXTS = ("folder", "options", "valid", "test", "tokenizer", "vocabulary", "cache")
READING = ("window", "stride", "noise", "consistency", "remembers")


class Letters:
    """Learned and judged is the answer alone.

    The vocabulary is the three letters and nothing else; a word and its answer but for the last letter make a context
    of eleven. Accuracy counts answers that are right in every letter, written one by one (greedily).
    """

    metric, higher_is_better = "accuracy", True

    def __init__(self, spec: "LanguageSpec") -> None:
        self.spec = spec
        for name in (*TEXTS, *READING):
            require(not getattr(spec, name), f"the game of letters is settled: it takes no {name}")
        config = config_of(spec, GPTConfig, "the game of letters")
        fits = is_new(spec) or (config.vocab == len(ALPHABET) and config.context >= LETTERS_LENGTH)
        require(fits, f"{spec.model} was not made for the game of letters: it needs a vocabulary of {len(ALPHABET)}")
        self.tokenizer = character_tokenizer(ALPHABET)
        dataset = with_validation(letters())
        self.rows = {name: self._rows(part) for name, part in dataset.parts.items()}
        self.parts = tuple(name for name in self.rows if name != "train")
        self.notes = dataset.notes

    def _rows(self, part: Parallel) -> Tensor:
        """Words with their answers, (N,12)."""
        both = zip(part.sources, part.targets, strict=True)
        return torch.tensor([self.tokenizer.ids(word + answer) for word, answer in both])

    def model(self, seed: int) -> Model:
        if not is_new(self.spec):
            return loaded_model(self.spec)
        return new_model(self.spec, seed, vocab=len(ALPHABET), context=LETTERS_LENGTH)

    def batches_per_epoch(self, batching: Batching) -> float:
        return len(self.rows["train"]) / batching.size

    def batch(self, number: int, batching: Batching, rank: int, world: int, device: torch.device) -> TokenBatch:
        check_share(batching.size, world)
        train = self.rows["train"]
        chosen = shuffled(len(train), batching.seed, number, batching.size)[rank::world]
        return self._batch(train[torch.from_numpy(chosen)].to(device))

    def _batch(self, rows: Tensor) -> TokenBatch:
        answer = (torch.arange(LETTERS_LENGTH, device=rows.device) >= WORD_LENGTH - 1).float()
        return TokenBatch(rows[:, :-1], rows[:, 1:], answer.expand(len(rows), -1), len(rows) * WORD_LENGTH)

    def weight(self, batch: TokenBatch) -> int:
        return batch.count

    def losses(self, model: Model, batch: TokenBatch) -> Mapping[str, Tensor]:
        return next_token_losses(model, batch)

    def evaluate(self, model: Model, part: str, device: torch.device, progress: Progress = quiet) -> dict[str, float]:
        rows = self.rows[part]
        with evaluating(model):
            batch = self._batch(rows.to(device))
            loss = float(next_token_losses(model, batch)["loss"]) / batch.count
            prompts, answers = rows[:, :WORD_LENGTH].tolist(), rows[:, WORD_LENGTH:].tolist()
            written = collect(len(rows), generate(model, prompts, Limits(WORD_LENGTH)))  # pyright: ignore[reportArgumentType]
        right = sum(row.tokens == answer for row, answer in zip(written, answers, strict=True))
        progress(len(rows), len(rows))
        return {"accuracy": right / len(rows), "loss": loss}

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)
