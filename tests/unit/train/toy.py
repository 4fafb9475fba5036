"""A task small enough to train in a blink: a GPT that learns what follows what in a made-up language."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.data import word_tokenizer
from clearhead.models import Model, create
from clearhead.train.task import Batching, Progress, Spec, quiet

VOCAB, LENGTH, EPOCH = 12, 8, 10


@dataclass(frozen=True, kw_only=True)
class ToySpec(Spec):
    """ragged: rows of different lengths; poison: the number of a batch whose loss is no number."""

    kind = "toy"
    model: str = "gpt2"
    dropout: float = 0.1
    ragged: bool = False
    poison: int | None = None

    def open(self) -> "ToyTask":
        return ToyTask(self)


class ToyTask:
    metric, higher_is_better = "loss", False
    parts, notes = ("valid", "test"), ()

    def __init__(self, spec: ToySpec) -> None:
        self.spec = spec

    def model(self, seed: int) -> Model:
        size = {"vocab": VOCAB, "context": LENGTH, "width": 16, "layers": 2, "heads": 2}
        rate = self.spec.dropout
        drops = {"dropout": rate, "attention_dropout": rate, "embedding_dropout": rate}
        return create(self.spec.model, device="cpu", seed=seed, **size, **drops)

    def batches_per_epoch(self, batching: Batching) -> float:
        return EPOCH

    def batch(self, number: int, batching: Batching, rank: int, world: int, device: torch.device) -> Any:
        ids, lengths = rows(batching.size, batching.seed * 1_000_003 + number, self.spec.ragged)
        mine = slice(rank, None, world)
        poisoned = self.spec.poison == number
        return ids[mine].to(device), lengths[mine].to(device), torch.tensor(float("nan") if poisoned else 1.0)

    def weight(self, batch: Any) -> int:
        return int((batch[1] - 1).sum())

    def losses(self, model: Model, batch: Any) -> Mapping[str, Tensor]:
        ids, lengths, factor = batch
        logits = model(ids[:, :-1])
        each = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view(len(ids), -1)
        real = torch.arange(each.shape[1], device=each.device) < (lengths - 1)[:, None]
        return {"loss": (each * real).sum() * factor, "right": ((logits.argmax(-1) == ids[:, 1:]) & real).sum()}

    def evaluate(self, model: Model, part: str, device: torch.device, progress: Progress = quiet) -> dict[str, float]:
        ids, _ = rows(32, {"valid": -1, "test": -2}[part] % 2**31, False)
        ids = ids.to(device)
        logits = model(ids[:, :-1])
        progress(1, 1)
        return {"loss": float(F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()))}

    def save(self, folder: Path) -> None:
        word_tokenizer(vocabulary=[f"w{number}" for number in range(VOCAB)]).save(folder)


def rows(count: int, seed: int, ragged: bool) -> tuple[Tensor, Tensor]:
    """Walks in which 3n + 1 follows n, most of the time."""
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(VOCAB, (count, LENGTH), generator=random)
    for place in range(1, LENGTH):
        sure = torch.rand(count, generator=random) < 0.9
        ids[:, place] = torch.where(sure, (3 * ids[:, place - 1] + 1) % VOCAB, ids[:, place])
    lengths = torch.randint(3, LENGTH + 1, (count,), generator=random) if ragged else torch.full((count,), LENGTH)
    return ids, lengths
