"""What a part of a recipe is worth: the recipe and variants of it, side by side on pictures or texts held out.

    python -m benchmarks.variants vit-cifar10 held_out=0.6 --seconds 120 --try fields.ff=512 --try "skip_rows=0 seed=1"
    python -m benchmarks.variants runs/first cifar10 fields.image=64 --try optimiser.rate=3e-4

A recipe, or a model or checkpoint and data. `key=value` changes every run, as in `clearhead train`; each `--try` is one
more run with changes of its own. All are judged on `valid`, the part that was held out; the test part is not read. With
`--seconds` each run has as many epochs as it gets through in that time on this device, compiling left out: what is
faster learns longer. The order is that of the command, one behind the other; one that fails has its reason in the
table. Figures are of one seed: beside a share stands its standard error, which says nothing about other seeds.
"""

import argparse
import json
import math
import sys
import tempfile
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from clearhead.errors import ClearheadError
from clearhead.models.registry import as_device
from clearhead.train.job import Run, Watch
from clearhead.train.loop import Trainer, train
from clearhead.train.ranks import Ranks

from . import table
from .busy import seconds_of
from .gpu import forget, say
from .stages import one_stage

PLACES = 100  # of a run that are looked at for changes on the way
WARM, TIMED = 10, 40  # updates: those of the first compile and record
AS_IT_IS = "as it is"
HEADER = ["variant", "epochs", "updates", "seconds", "held out"]


@dataclass(frozen=True)
class Result:
    """`seconds` are those of training, compiling left out; `error` is the standard error of a share."""

    variant: str
    epochs: float
    updates: int
    seconds: float
    metric: str
    value: float
    error: float | None


@dataclass(frozen=True)
class Failure:
    variant: str
    reason: str


def judged(name: str, words: Sequence[str], variant: str, seconds: float | None) -> Result:
    """`words`: data, where `name` is no recipe, and changes."""
    data = [word for word in words if "=" not in word]
    changes = [word for word in words if "=" in word]
    run = one_stage(name, data, [*changes, *variant.split()])
    task: Any = run.spec.open()
    if "valid" not in task.parts:
        raise ClearheadError(f"{name} holds nothing out: say held_out=0.1, say")
    task.parts = ("valid",)
    if seconds is not None:
        run = fitted(run, task, seconds)
    with tempfile.TemporaryDirectory() as folder:
        outcome = train(run, Path(folder), Watch(updated=told), task)
    value, rows = outcome.figures["valid"][task.metric], held_out(task)
    per_epoch = task.batches_per_epoch(run.settings.batching)
    error = None if rows is None or not 0 <= value <= 1 else math.sqrt(value * (1 - value) / rows)
    spent = outcome.seconds - (outcome.preparing or 0.0)
    return Result(variant, outcome.steps / per_epoch, outcome.steps, spent, task.metric, value, error)


def held_out(task: Any) -> int | None:
    """How many pictures or texts are judged, where each of them is right or wrong."""
    rows = getattr(task, "data", None) or getattr(task, "rows", {})
    return len(rows["valid"]) if task.metric == "accuracy" and "valid" in rows else None


def fitted(run: Run, task: Any, seconds: float) -> Run:
    """The run with as many epochs as go into the time."""
    pace, per_epoch = seconds_an_update(run, task), task.batches_per_epoch(run.settings.batching)
    return replace(run, settings=replace(run.settings, epochs=round(seconds / pace / per_epoch, 2), steps=None))


def seconds_an_update(run: Run, task: Any) -> float:
    """The mean over a whole run, whose phases are timed one by one. What is trained here is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(run, Path(folder), Ranks(0, 1, as_device(run.settings.device)), Watch(), task)
        total = 0.0
        for places in phases(trainer).values():
            trainer.step = places[0]
            seconds_of(trainer.update, WARM)
            total += len(places) / PLACES * seconds_of(trainer.update, TIMED) / TIMED
    return total


def phases(trainer: Trainer) -> dict[Hashable, list[int]]:
    """Updates all along the run, by what an update depends on there."""
    found: dict[Hashable, list[int]] = defaultdict(list)
    for place in range(PLACES):
        trainer.step = place * trainer.steps // PLACES
        found[trainer._enter()].append(trainer.step)
    return found


def told(step: int, steps: int, figures: Mapping[str, float]) -> None:
    """On one line that is written over, where somebody looks."""
    if sys.stderr.isatty():
        end = "\n" if step == steps else "\r"
        print(f"update {step:,} of {steps:,}, loss {figures['loss']:.4f}", end=end, file=sys.stderr, flush=True)


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.variants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", help="a recipe, a model or a checkpoint")
    parser.add_argument("words", nargs="*", metavar="data, key=value", help="of a model; changes of every run")
    parser.add_argument("--try", dest="variants", action="append", default=[], metavar="'key=value ...'")
    parser.add_argument("--seconds", type=float, help="of training, for each run; as many epochs as it says without")
    parser.add_argument("--json", action="store_true", help="the figures as one JSON array")
    return parser.parse_intermixed_args(words)


def main(words: Sequence[str] | None = None) -> int:
    given = parse(words)
    found: list[Result | Failure] = []
    for variant in ("", *given.variants):
        say(variant or AS_IT_IS)
        try:
            found.append(judged(given.what, given.words, variant, given.seconds))
        except (ClearheadError, RuntimeError) as problem:  # a compiler's failure is a RuntimeError
            found.append(Failure(variant, (str(problem).splitlines() or ["failed"])[0]))
        say("  ".join(line(found[-1])[1:]).strip())
        forget()
    print(json.dumps([asdict(one) for one in found]) if given.json else table(HEADER, [line(one) for one in found]))
    return 0 if all(isinstance(one, Result) for one in found) else 1


def line(result: Result | Failure) -> list[str]:
    name = result.variant or AS_IT_IS
    if isinstance(result, Failure):
        return [name, "", "", "", result.reason]
    share = result.error is not None
    value = f"{result.value:.2%} +- {result.error:.2%}" if share else f"{result.metric} {result.value:.4f}"
    return [name, f"{result.epochs:.1f}", str(result.updates), f"{result.seconds:.0f}", value]


if __name__ == "__main__":
    sys.exit(main())
