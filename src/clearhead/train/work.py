"""What a process does with a batch, and how it is spread: here every process has all the weights (see sharded.py)."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..layers.stack import compile_blocks
from ..models.base import Model
from .average import EMA, Average
from .optimiser import Optimiser, Updater, build
from .ranks import Ranks
from .settings import BLOCKWISE
from .task import Progress, Task


class Work(nn.Module):
    """One batch's losses, and the figures of a part, as a module: so that it can be compiled and distributed whole."""

    def __init__(self, model: Model, task: Task, precision: str) -> None:
        super().__init__()
        self.model, self.task, self.precision = model, task, precision

    def forward(self, batch: Any) -> Mapping[str, Tensor]:
        kind = self.model.device.type
        with torch.autocast(kind, torch.bfloat16) if self.precision != "fp32" else nullcontext():
            return self.task.losses(self.model, batch)

    def evaluate(self, part: str, device: torch.device, progress: Progress) -> dict[str, float]:
        return self.task.evaluate(self.model, part, device, progress)


class Spread(Protocol):
    """The work over all processes, and the weights as files hold them. Every process makes every call."""

    work: Work
    compute: Any  # a batch -> its losses

    def updater(self, settings: Optimiser) -> Updater: ...

    def average(self, settings: Average) -> EMA: ...

    def gradients(self, last: bool) -> AbstractContextManager[Any]:
        """Around one batch's passes: when the update's last batch leaves it, gradients are means over processes."""
        ...

    def whole(self) -> Model | None:
        """The model with all its weights as they are now, in the first process at least."""
        ...

    def fill(self, source: Model | None) -> None:
        """Take the weights of a model that the first process has."""
        ...


class Copies:
    """Every process has all the weights: one alone, or several whose gradients DDP adds up."""

    def __init__(self, work: Work, here: Ranks, compiled: bool | str, example: Callable[[], Any]) -> None:
        """`example` gives a batch: with several processes it is tried out before the first update."""
        self.work, self.here = work.to(here.device), here
        if compiled in BLOCKWISE:
            compile_blocks(work.model, dynamic=compiled == "dynamic-blocks")
        self.compute: Any = torch.compile(work) if compiled is True else work
        if here.world > 1:
            spare = here.any(_leaves_weights_out(work, example()))
            self.compute = DistributedDataParallel(
                self.compute, find_unused_parameters=spare, gradient_as_bucket_view=True
            )

    def updater(self, settings: Optimiser) -> Updater:
        return build(self.work.model, settings)

    def average(self, settings: Average) -> EMA:
        return EMA(self.work.model, settings)

    def gradients(self, last: bool) -> AbstractContextManager[Any]:
        return nullcontext() if last or self.here.world == 1 else self.compute.no_sync()

    def whole(self) -> Model:
        return self.work.model

    def fill(self, source: Model | None) -> None:
        if source is not None:
            self.work.model.load_state_dict(source.state_dict())
        if self.here.world > 1:
            for weight in self.work.model.parameters():
                dist.broadcast(weight.detach(), 0)


def _leaves_weights_out(work: Work, batch: Any) -> bool:
    """Whether a task's loss leaves weights without a gradient (a pooler that nobody asks): DDP must be told."""
    weights = [weight for weight in work.parameters() if weight.requires_grad]
    gradients = torch.autograd.grad(work(batch)["loss"], weights, allow_unused=True)
    return any(gradient is None for gradient in gradients)
