"""One update of a run with its real values: the batch, the loss, every gradient, what is added to every weight.

It is the loop's own update (`train/loop.py`) on a copy of the run's weights and of its optimiser's memory, at a state
that the run has saved or at its beginning. Nothing is written.
"""

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..convert import open_weights
from ..errors import ClearheadError, near, quoted
from ..files import read_json
from ..train.loop import Run, Trainer, Watch
from ..train.optimiser import Updater
from ..train.records import read_run
from ..train.saved import ALONE, RECORD, TENSORS, States
from ..train.task import Task
from .batch_shown import rows_of, shown_rows
from .binary import span
from .tasks_kept import Tasks
from .training_schema import AdamShown, BatchTold, LayerNorms, StepTold, StepWanted, WeightNorms, WeightShown

SIDE = 64  # rows and columns of a weight that are told at most
LAYER = re.compile(r"(.*?\bblocks\.\d+)\.")


class Opener:
    """Opens updates, one at a time: each takes as much memory as training does."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks, self._lock = tasks, threading.Lock()

    def step(self, name: str, folder: Path, wanted: StepWanted) -> StepTold:
        run = read_run(folder)
        here = replace(run, settings=replace(run.settings, device="cpu", compile=False, shard=False))
        with self._lock, torch.random.fork_rng(devices=[]):
            opened = _Opened(here, folder, self.tasks.open(run), wanted)
            return opened.told(name)


@dataclass
class _Seen:
    """A task whose batches are seen, and may be others than the run's own. `chance`: the dice behind the last one."""

    task: Task
    moved: int = 0
    batches: list[Any] = field(default_factory=list)
    chance: Tensor | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)

    def batch(self, number: int, *how: Any) -> Any:
        made = self.task.batch(number + self.moved, *how)
        self.batches.append(made)
        self.chance = torch.get_rng_state()
        return made


class _Watched(Updater):
    """An optimiser that keeps what it was given and what it made of it."""

    def __init__(self, updater: Updater, names: Mapping[str, Tensor]) -> None:
        super().__init__(updater.optimisers, updater.clip)
        self.names = names
        self.gradients: dict[str, Tensor] = {}
        self.before: dict[str, Tensor] = {}

    def clip_gradients(self) -> Tensor:
        self.gradients = {
            name: weight.grad.clone() if weight.grad is not None else torch.zeros_like(weight)
            for name, weight in self.names.items()
        }
        self.before = {name: weight.detach().clone() for name, weight in self.names.items()}
        return super().clip_gradients()


class _Opened:
    def __init__(self, run: Run, folder: Path, task: Task, wanted: StepWanted) -> None:
        self.run, self.wanted, self.seen, self.said = run, wanted, _Seen(task), {}
        watch = Watch(updated=lambda step, steps, figures: self.said.update(figures))
        seen: Any = self.seen  # it is what it holds
        self.trainer = Trainer(run, folder, ALONE, watch, seen)
        self.states = [0, *_states(folder, run)]
        self.at = self._chosen()
        if self.at:
            _restore(self.trainer, folder, self.at)
        first = self.at * run.settings.accumulate
        self.number = first if wanted.batch is None else wanted.batch
        self.seen.moved = self.number - first
        self.own = self.number == first and self.at < self.trainer.steps

    def _chosen(self) -> int:
        if self.wanted.at is None:
            return max(step for step in self.states if step < self.trainer.steps)
        if self.wanted.at not in self.states:
            known = ", ".join(map(str, self.states))
            raise ClearheadError(f"there is no state of step {self.wanted.at}: a step can be opened at {known}")
        return self.wanted.at

    def told(self, name: str) -> StepTold:
        trainer, settings = self.trainer, self.run.settings
        weights = {key: weight for key, weight in trainer.model.named_parameters() if weight.requires_grad}
        trainer.updater = watched = _Watched(trainer.updater, weights)
        trainer.update()
        trainer.log()
        changes = {key: weight.detach() - watched.before[key] for key, weight in weights.items()}
        norms = [_norms(key, watched, changes[key]) for key in weights]
        loss, norm = self.said.pop("loss"), self.said.pop("norm")
        factor, clip = trainer.schedule.factor(self.at), settings.optimiser.clip
        del self.said["rate"]
        return StepTold(
            run=name,
            at=self.at,
            steps=trainer.steps,
            states=self.states,
            own=self.own,
            batch=self._batch(),
            loss=loss,
            loss_after=self._loss_again(),
            figures=self.said,
            rate=settings.optimiser.rate * factor,
            factor=factor,
            norm=norm,
            clip=clip,
            clipped=1.0 if clip is None else min(1.0, clip / (norm + 1e-6)),
            optimiser=settings.optimiser.name,
            schedule=settings.schedule,
            layers=_by_layer(norms),
            weights=norms,
            shown=self._shown(watched, {key: weight.detach() for key, weight in weights.items()}, changes),
        )

    def _batch(self) -> BatchTold:
        batches, task = self.seen.batches, self.seen.task
        return BatchTold(
            number=self.number,
            batches=len(batches),
            rows=sum(map(rows_of, batches)),
            count=sum(map(task.weight, batches)),
            shown=shown_rows(task, batches[0]),
        )

    def _loss_again(self) -> float:
        """Of the same batches, with the same dropout, and the weights as they are now."""
        assert self.seen.chance is not None
        torch.set_rng_state(self.seen.chance)
        with torch.no_grad():
            sums = [self.trainer.spread.compute(batch)["loss"].item() for batch in self.seen.batches]
        return sum(sums) / max(1, sum(map(self.seen.task.weight, self.seen.batches)))

    def _shown(self, watched: _Watched, after: Mapping[str, Tensor], changes: Mapping[str, Tensor]) -> WeightShown:
        name = self.wanted.weight or _first_matrix(after)
        if name not in after:
            raise ClearheadError(f"the run trains no weight {quoted(name)}{near(name, after)}")
        whole = _as_matrix(after[name])
        rows, columns = whole.shape
        down = _within(self.wanted.rows, rows, "rows")
        along = _within(self.wanted.columns, columns, "columns")

        def part(values: Tensor) -> list[list[float]]:
            return _as_matrix(values)[slice(*down), slice(*along)].float().tolist()

        return WeightShown(
            name=name,
            rows=rows,
            columns=columns,
            slice=(*down, *along),
            before=part(watched.before[name]),
            gradient=part(watched.gradients[name]),
            update=part(changes[name]),
            after=part(after[name]),
            adam=_adam(watched, name, part),
        )


def _within(asked: str | None, size: int, what: str) -> tuple[int, int]:
    start, end = (0, min(SIDE, size)) if asked is None else span(asked, size, what)
    if end - start > SIDE:
        raise ClearheadError(f"at most {SIDE} {what} of a weight are told at a time, not {end - start}")
    return start, end


def _as_matrix(values: Tensor) -> Tensor:
    """(rows, columns): a vector is one row, a kernel's row is one behind the other."""
    return values.reshape(1, -1) if values.ndim < 2 else values.flatten(1)


def _first_matrix(weights: Mapping[str, Tensor]) -> str:
    """The first matrix of a block: of its attention."""
    return next(
        (name for name, weight in weights.items() if weight.ndim > 1 and LAYER.match(name)), next(iter(weights))
    )


def _group(updater: Updater, name: str) -> tuple[str, dict[str, Any]]:
    """How a weight is moved: by which optimiser, with which settings."""
    return next(
        (method, group)
        for method, optimiser in updater.optimisers.items()
        for group in optimiser.param_groups
        if name in group["param_names"]
    )


def _adam(updater: Updater, name: str, part: Callable[[Tensor], list[list[float]]]) -> AdamShown | None:
    """A weight that never had a gradient is not remembered."""
    method, group = _group(updater, name)
    state = updater.state_dict()
    if method != "adamw" or f"{name}.step" not in state:
        return None
    return AdamShown(
        betas=group["betas"],
        eps=group["eps"],
        count=int(state[f"{name}.step"]),
        first=part(state[f"{name}.exp_avg"]),
        second=part(state[f"{name}.exp_avg_sq"]),
    )


def _norms(name: str, watched: _Watched, change: Tensor) -> WeightNorms:
    method, group = _group(watched, name)
    return WeightNorms(
        name=name,
        shape=list(change.shape),
        weight=watched.before[name].norm().item(),
        gradient=watched.gradients[name].norm().item(),
        update=change.norm().item(),
        rate=group["lr"],
        decay=group["weight_decay"],
        method=method,
    )


def _by_layer(norms: list[WeightNorms]) -> list[LayerNorms]:
    """Blocks are layers; what stands outside them is called by its first name."""
    layers: dict[str, list[WeightNorms]] = {}
    for one in norms:
        found = LAYER.match(one.name)
        layers.setdefault(found[1] if found else one.name.partition(".")[0], []).append(one)

    def together(some: list[WeightNorms], what: str) -> float:
        return sum(getattr(one, what) ** 2 for one in some) ** 0.5

    parts = ("weight", "gradient", "update")
    return [LayerNorms(layer=layer, **{what: together(some, what) for what in parts}) for layer, some in layers.items()]


def _states(folder: Path, run: Run) -> list[int]:
    """The steps of the whole states that are this run's own."""
    found = []
    for place in States(folder, run.fingerprint).found():
        if (place / RECORD).is_file() and read_json(place / RECORD).get("run") == run.fingerprint:
            found.append(int(place.name))
    return found


def _restore(trainer: Trainer, folder: Path, step: int) -> None:
    place = folder / "state" / f"{step:08d}"
    if not (place / TENSORS).is_file():
        raise ClearheadError(f"the state of step {step} is in pieces, or was just replaced by a later one: try another")
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimiser": {}}
    for key, tensor in open_weights(place / TENSORS).items():
        part, _, name = key.partition("/")
        if part in parts:
            parts[part][name] = tensor.clone()
    trainer.model.load_state_dict(parts["model"])
    trainer.updater.load_state_dict(parts["optimiser"])
    trainer.step = step
