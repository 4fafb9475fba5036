"""The loop: one for every family and task. Batch, loss, gradients, update; now and then a line, a validation, a state.

An update is a pure function of its number and of what the saved state holds: batches are numbered, dropout is seeded
by the number, and nothing else is random. So a run that was killed gives the same weights as one that was not.
"""

import hashlib
import time
from collections.abc import Hashable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import ClearheadError
from ..layers.stack import set_checkpointing, set_drop_path, set_row_skipping
from ..models.base import Model
from ..models.registry import as_device
from .aside import Aside
from .freeze import freeze, unfreeze
from .interrupt import Interrupt
from .job import Outcome, Run, Watch
from .lora import add_lora
from .metrics import Metrics
from .outputs import Outputs, make_plain
from .phases import value_at
from .ranks import Ranks, lost_another, ranks
from .recorded import Figures, Recorded
from .saved import Saved, States
from .schedule import Schedule
from .sharpness import uphill
from .task import Phased, Task, evaluating
from .token_loss import set_float8
from .work import Copies, Spread, Work

__all__ = ["Outcome", "Run", "Watch", "train"]

DEPTHS = {"drop_path": set_drop_path, "skip_rows": set_row_skipping}


def train(run: Run, folder: Path, watch: Watch | None = None, task: Task | None = None) -> Outcome:
    """Train, or go on with, the run that `folder` holds; evaluate it; leave a folder that `load` reads.

    `task` is the run's own, where the caller has opened it already.
    """
    with ranks(as_device(run.settings.device)) as here:
        return _train(run, folder, here, watch or Watch(), task or run.spec.open())


def _train(run: Run, folder: Path, here: Ranks, watch: Watch, task: Task) -> Outcome:
    """A function of its own, so that the trainer is gone when the processes part."""
    trainer = Trainer(run, folder, here, watch, task)
    try:
        return trainer.run_all()
    except torch.OutOfMemoryError:
        raise ClearheadError(
            f"the device ran out of memory at step {trainer.step}: make the batch smaller and `accumulate` larger, "
            f"or set recompute=true; {trainer.states_told()}"
        ) from None
    except RuntimeError as problem:
        if not lost_another(problem):
            raise
        raise ClearheadError(
            f"another process ended at step {trainer.step}, and says why itself; {trainer.states_told()}"
        ) from problem
    finally:
        trainer.close()


class Trainer:
    def __init__(self, run: Run, folder: Path, here: Ranks, watch: Watch, task: Task) -> None:
        self.run, self.folder, self.here = run, folder, here
        self.watch = watch if here.first else Watch()
        self.settings, self.task = run.settings, task
        self.states = States(folder, run.fingerprint, here, shard=self.settings.shard)
        self.model = self._model()
        self.spread = self._spread()
        self.updater = self.spread.updater(self.settings.optimiser)
        self.ema = None if self.settings.average is None else self.spread.average(self.settings.average)
        per_epoch = self.task.batches_per_epoch(self.settings.batching)
        self.steps = self.settings.updates(per_epoch)
        self.validate_every = self.settings.validates_every(per_epoch)
        self.schedule = Schedule(
            steps=self.steps,
            name=self.settings.schedule,
            warmup=min(self.settings.warmup, self.steps),
            floor=self.settings.floor,
        )
        self.step, self.best, self.waited, self.spent = 0, None, 0, 0.0
        self.preparing = 0.0  # seconds in which the making of batches was compiled; `recorded` has those of updates
        self.snapshots: list[int] = []
        self._figures: Any = None  # of the last update
        self.depths: dict[str, float] = dict.fromkeys(DEPTHS, 0.0)
        self.radius = 0.0  # how far uphill gradients are taken
        self.metrics: Metrics | None = None
        self.interrupt = Interrupt()
        self.recorded = self._recorded()
        self.aside = None if self.recorded is None else Aside(here.device)
        self.outputs = Outputs(folder, here, self.spread, self.task)

    def _model(self) -> Model:
        model = self.task.model(self.settings.seed)
        if self.settings.lora is not None:
            add_lora(model, self.settings.lora, torch.Generator().manual_seed(self.settings.seed))
            unfreeze(model, self.settings.unfreeze)
        if self.settings.freeze:
            freeze(model, self.settings.freeze)
        if self.settings.recompute:
            set_checkpointing(model, True)
        if self.settings.precision == "fp8":
            if getattr(self.run.spec, "consistency", 0.0):
                raise ClearheadError("precision=fp8 and consistency don't go together: the latter compares all scores")
            set_float8(model, self.here.device)
        return model.train()

    def _spread(self) -> Spread:
        """The model's way to the device, or to all of them."""
        work, wanted = Work(self.model, self.task, self.settings.precision), self.settings.compile
        compiled = self.here.device.type == "cuda" if wanted is None else wanted
        if self.settings.shard and self.here.world > 1:
            from .sharded import Shards

            return Shards(work, self.here, bool(compiled))
        return Copies(work, self.here, compiled, lambda: self._batch(0))

    def _recorded(self) -> Recorded | None:
        """The update as a graph, where that is wanted and possible."""
        device = self.here.device
        if not self.settings.graph:
            return None
        if device.type != "cuda" or self.here.world > 1:
            self.watch.said("graph=true is for one GPU: updates are computed one kernel after the other")
            return None
        self.updater.rates_on(device)
        if self.ema is not None:
            self.ema.share = torch.zeros((), device=device)
        return Recorded(self._computed, device)

    def _batch(self, number: int) -> Any:
        return self.task.batch(number, self.settings.batching, self.here.rank, self.here.world, self.here.device)

    # -------------------------------------------------------------------------------------- the run

    def run_all(self) -> Outcome:
        self._open()
        with self.interrupt.listening():
            while self.step < self.steps and not self._patience_is_over():
                began = time.perf_counter()
                if not self.update():
                    break
                self._now_and_then()
                self.spent += time.perf_counter() - began
        if self.here.any(self.interrupt.wanted):
            self._save_state()
            return Outcome(self.folder, self.step, self.spent, interrupted=True)
        return self._finish()

    def _open(self) -> None:
        """Go on from the last good state, if there is one."""
        saved = self.states.newest(self.model.state_dict())
        if saved is not None:
            self._restore(saved)
        if self.here.first:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.metrics = Metrics(self.folder, self.step)
            if not self.metrics.writes_events:
                self.watch.said("TensorBoard is not installed: no event files are written (pip install tensorboard)")
        self.here.wait()

    def _restore(self, saved: Saved) -> None:
        values = saved.values
        self.model.load_state_dict(saved.tensors["model"])
        self.updater.load_state_dict(saved.tensors.get("optimiser", {}))
        if self.ema is not None:
            self.ema.load_state_dict({"updates": values["average_updates"], "weights": saved.tensors["average"]})
        self.step, self.best, self.waited = saved.step, values["best"], values["waited"]
        self.spent, self.snapshots = values["seconds"], values["snapshots"]
        self.watch.said(f"going on behind step {self.step} of {self.steps}")
        threads = torch.get_num_threads()
        if values["threads"] != threads:
            self.watch.said(f"{threads} threads now, {values['threads']} before: the last bits may differ")
        if values["world"] != self.here.world:
            now = f"{self.here.world} process{'' if self.here.world == 1 else 'es'} now"
            self.watch.said(
                f"{now}, {values['world']} before: the last bits may differ, and dropout draws other numbers"
            )

    def update(self) -> bool:
        """One update, or none where a process was interrupted: then nothing has changed in any of them."""
        settings, here = self.settings, self.here
        torch.manual_seed(_seed(settings.seed, self.step, here.rank))
        phase = self._enter()
        batches = self._batches()
        weight, stops = here.sums(sum(self.task.weight(batch) for batch in batches), int(self.interrupt.wanted))
        if stops:
            return False
        self.updater.set_rates(self.schedule.factor(self.step))
        if self.ema is not None:
            self.ema.advance()
        scale = here.world / max(1, weight)  # gradients become the mean over the processes: the sum is wanted
        computed = self._computed(batches, scale) if self.recorded is None else self.recorded(phase, batches, scale)
        self.step += 1
        self._figures = (*computed, weight)
        return True

    def _batches(self) -> list[Any]:
        """What the next update is computed for. In a run's first one, the making of batches may be compiled."""
        began, first = time.perf_counter(), self.step * self.settings.accumulate

        def make() -> list[Any]:
            return [self._batch(number) for number in range(first, first + self.settings.accumulate)]

        batches = make() if self.aside is None else self.aside(make)
        if self._figures is None:
            self.preparing += time.perf_counter() - began
        return batches

    def _computed(self, batches: Sequence[Any], scale: float | Tensor) -> Figures:
        """All that the device does for an update: the sums of the losses, and the gradient's norm before clipping."""
        sums = self._gradients(batches, scale)
        if self.radius:
            with uphill(self.model.parameters(), self.radius):
                self._gradients(batches, scale)
        norm = self.updater.clip_gradients()
        self.updater.step(None)
        self.updater.zero_grad()
        if self.ema is not None:
            self.ema.blend(self.model)
        return sums, norm

    def _gradients(self, batches: Sequence[Any], scale: float | Tensor) -> dict[str, Tensor]:
        """Those of all batches together; gives the sums of their losses."""
        sums: dict[str, Tensor] = {}
        for place, batch in enumerate(batches):
            with self.spread.gradients(last=place == len(batches) - 1):
                losses = self.spread.compute(batch)
                (losses["loss"] * scale).backward()
            for name, value in losses.items():
                sums[name] = sums.get(name, 0) + value.detach()
        return sums

    def _enter(self) -> Hashable:
        """What changes within a run is set by the number of the next update alone; gives what names it."""
        progress = self.step / self.steps
        for name, set_depth in DEPTHS.items():
            rate = value_at(getattr(self.settings, name), progress)
            if rate != self.depths[name]:
                set_depth(self.model, rate)
                self.depths[name] = rate
        self.radius = value_at(self.settings.sharpness, progress)
        entered = self.task.enter(self.model, progress) if isinstance(self.task, Phased) else None
        return *self.depths.values(), self.radius, entered

    def _now_and_then(self) -> None:
        settings, last = self.settings, self.step == self.steps
        validates = self.step % self.validate_every == 0 or last
        saves = validates or (settings.save_every is not None and self.step % settings.save_every == 0)
        if self.step % settings.log_every == 0 or saves:
            self.log()
        if validates and "valid" in self.task.parts:
            self._validate()
        if saves:
            self._save_state()

    def log(self) -> None:
        """A line of metrics; a loss that is no number ends the run before it can spoil a state."""
        sums, norm, weight = self._figures
        names = list(sums)
        values = self.here.totals(torch.stack([sums[name].float() for name in names])) / max(1, weight)
        figures = dict(zip(names, values.tolist(), strict=True))
        figures |= {"rate": self.settings.optimiser.rate * self.schedule.factor(self.step - 1), "norm": float(norm)}
        if not torch.isfinite(torch.tensor([figures["loss"], figures["norm"]])).all():
            raise ClearheadError(
                f"the loss or its gradient is not a number at step {self.step} (loss {figures['loss']}, gradient "
                f"{figures['norm']}): lower the rate or warm up longer; {self.states_told()}"
            )
        if self.metrics is not None:
            self.metrics.write(self.step, figures)
        self.watch.updated(self.step, self.steps, figures)

    def _validate(self) -> None:
        with self._averaged():
            figures = self.evaluate("valid")
        if self.metrics is not None:
            self.metrics.write(self.step, {f"valid/{name}": value for name, value in figures.items()})
        self.watch.validated(self.step, figures)
        value, sign = figures[self.task.metric], 1 if self.task.higher_is_better else -1
        if self.best is None or sign * value > sign * self.best["value"]:
            self.best, self.waited = {"step": self.step, "value": value}, 0
            self._save_model()
        else:
            self.waited += 1
        if self.settings.average_last and self.step not in self.snapshots:
            self.snapshots = [*self.snapshots, self.step][-self.settings.average_last :]
            with self._averaged():
                self.outputs.save_for_mean(self.step)

    def _patience_is_over(self) -> bool:
        return self.settings.patience is not None and self.waited >= self.settings.patience

    def evaluate(self, part: str) -> dict[str, float]:
        """Figures of the weights as they are. All processes compute them, so none waits; the first one's count.

        Nothing is compiled for it: that takes longer than to read some thousand rows as they come.
        """
        with evaluating(self.model), torch.compiler.set_stance("eager_on_recompile"):
            figures = self.spread.work.evaluate(part, self.here.device, self.watch.evaluating)
        return dict(zip(figures, self.here.agreed(list(figures.values())), strict=True))

    # -------------------------------------------------------------------------------------- files

    def _averaged(self) -> Any:
        return nullcontext() if self.ema is None else self.ema.swapped(self.model)

    def _save_model(self) -> None:
        """The folder's own weights: the best so far."""
        with self._averaged():
            self.outputs.save()

    def _save_state(self) -> None:
        tensors: dict[str, dict[str, Tensor]] = {"model": dict(self.model.state_dict())}
        tensors["optimiser"] = self.updater.state_dict()
        values = {"best": self.best, "waited": self.waited, "seconds": self.spent, "snapshots": self.snapshots}
        values |= {"threads": torch.get_num_threads(), "world": self.here.world}
        if self.ema is not None:
            tensors["average"] = self.ema.state_dict()["weights"]
            values["average_updates"] = self.ema.updates
        self.states.save(Saved(self.step, tensors, values))

    def _finish(self) -> Outcome:
        """The best weights, or the mean of the last ones, judged on every part that there is."""
        began = time.perf_counter()
        if self.best is None:
            self._save_model()
        elif self.settings.average_last:
            self.outputs.save_mean(self.snapshots)
        # what the folder holds is what is judged: not what happens to be in memory
        make_plain(self.model)
        self.spread.fill(self.outputs.saved())
        outcome = Outcome(self.folder, self.step, self.spent, {part: self.evaluate(part) for part in self.task.parts})
        outcome.preparing = None if self.recorded is None else self.recorded.seconds + self.preparing
        self.outputs.tell(outcome, self.run, self.spent + time.perf_counter() - began)
        return outcome

    # -------------------------------------------------------------------------------------- odds and ends

    def states_told(self) -> str:
        found = self.states.found()
        return f"the last good state is step {int(found[-1].name)}" if found else "no state was saved yet"

    def close(self) -> None:
        if self.metrics is not None:
            self.metrics.close()


def _seed(seed: int, step: int, rank: int) -> int:
    """A number for one update of one process: dropout depends on nothing else."""
    digest = hashlib.blake2b(f"{seed}/{step}/{rank}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
