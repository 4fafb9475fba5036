"""What the loop asks of a task, and nothing else: a model, numbered batches, a summed loss, and how good it is.

A task is a piece of data joined with something to learn from it: classes of pictures, the next token, masked words,
translations, spans. It is opened from a `Spec`, a frozen record of plain values that goes into run.yaml, so that a run
can be opened again from its folder alone.

Batches are numbered from 0 without an end, and each is a pure function of its number: nothing has to be stored to
resume. With `world` processes, those of all ranks together are the batch that one process would get.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ..models.base import Config, Model

Progress = Callable[[int, int], None]  # how many of how many are done


def quiet(done: int, of: int) -> None:
    """Nobody watches."""


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradients, and back. No inference mode: what a sharded model gathers in it can't be trained."""
    training = model.training
    try:
        with torch.no_grad():
            model.eval()
            yield
    finally:
        model.train(training)


@dataclass(frozen=True, kw_only=True)
class Batching(Config):
    """size: rows (or tokens, where the task says so) of one batch over all processes; seed: of order and noise."""

    size: int = 64
    seed: int = 0

    def check(self) -> None:
        self.require_sizes("size")


class Task(Protocol):
    metric: str  # the figure of `evaluate` that says which weights are best
    higher_is_better: bool
    parts: tuple[str, ...]  # what can be evaluated: "valid", "test", more tests
    notes: tuple[str, ...]  # what was recognised in the data, and what was left out

    def model(self, seed: int) -> Model:
        """The model to train: a new one, or the checkpoint's with the head that the task needs. On the CPU."""
        ...

    def batches_per_epoch(self, batching: Batching) -> float: ...

    def batch(self, number: int, batching: Batching, rank: int, world: int, device: torch.device) -> Any:
        """This rank's share of the batch with this number, on the device."""
        ...

    def weight(self, batch: Any) -> int:
        """Over how many things its loss is summed: pictures, tokens, masked words."""
        ...

    def losses(self, model: Model, batch: Any) -> Mapping[str, Tensor]:
        """Sums over the batch: "loss" is what is learned from; others are shown beside it."""
        ...

    def evaluate(self, model: Model, part: str, device: torch.device, progress: Progress = quiet) -> dict[str, float]:
        """Figures on a whole part, the task's `metric` among them."""
        ...

    def save(self, folder: Path) -> None:
        """What `load` and the commands need beside the weights: tokenizer or preprocessor, names of the classes."""
        ...


@runtime_checkable
class Phased(Protocol):
    """A task that changes within a run. The loop tells it before every update; nothing else may make it change."""

    def enter(self, model: Model, progress: float) -> Hashable:
        """What holds for the batches and losses of the next update; `progress` of the run, from 0 to 1, is over.

        Gives what names it: losses of equal names and equally shaped batches are computed by the same steps.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Spec(Config):
    """Which task, on which data, for which model. A subclass adds its fields and opens the task.

    model   the name of an architecture, or the folder of a checkpoint to go on from
    fields  changes to the architecture, by name
    """

    kind: ClassVar[str]
    model: str
    fields: Mapping[str, Any] | None = None

    def open(self) -> Task:
        """Read the data. One-line errors for what is missing or does not fit."""
        raise NotImplementedError
