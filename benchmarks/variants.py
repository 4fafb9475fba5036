"""What a part of a recipe is worth: the recipe and variants of it, side by side on pictures or texts held out.

    python -m benchmarks.variants vit-cifar10 held_out=0.6 --seconds 120 --try fields.ff=512 --try "skip_rows=0 seed=1"

`key=value` changes every run, as in `clearhead train`; each `--try` is one more run with changes of its own. All are
judged on `valid`, the part that was held out; the test part is not read. With `--seconds` each run has as many epochs
as it gets through in that time on this device, compiling left out: what is faster learns longer. The order is that of
the command, one behind the other. Figures are of one seed: beside a share stands its standard error, which says
nothing about other seeds.
"""

import argparse
import gc
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from clearhead.errors import ClearheadError
from clearhead.models.registry import as_device
from clearhead.recipes.start import named_run
from clearhead.train.job import Run, Watch
from clearhead.train.loop import Trainer, train
from clearhead.train.ranks import Ranks

from . import table

COURSES = ("kept_tokens", "mixing", "skip_rows", "drop_path", "sharpness")  # what may change on the way
WARM, TIMED = 10, 40  # updates: those of the first compile and record
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


def judged(name: str, changes: Sequence[str], variant: str, seconds: float | None) -> Result:
    run = named_run(name, [], [*changes, *variant.split()])
    task: Any = run.spec.open()
    if "valid" not in task.parts:
        raise ClearheadError(f"{name} holds nothing out: say held_out=0.1, say")
    task.parts = ("valid",)
    if seconds is not None:
        run = fitted(run, task, seconds)
    with tempfile.TemporaryDirectory() as folder:
        outcome = train(run, Path(folder), Watch(), task)
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
    """The mean over a whole run, whose stretches are timed one by one. What is trained here is thrown away."""
    device = as_device(run.settings.device)
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(run, Path(folder), Ranks(0, 1, device), Watch(), task)
        edges = [0.0, *changing(run), 1.0]
        total = 0.0
        for start, end in pairwise(edges):
            trainer.step = int((start + end) / 2 * trainer.steps)
            timed(trainer.update, WARM, wait)
            total += (end - start) * timed(trainer.update, TIMED, wait) / TIMED
    return total


def changing(run: Run) -> list[float]:
    """At which shares of the run anything changes."""
    courses = (getattr(side, name, None) for side in (run.spec, run.settings) for name in COURSES)
    return sorted({float(share) for course in courses if isinstance(course, tuple) for share in course[1::2]})


def timed(update: Callable[[], Any], count: int, wait: Callable[[], None]) -> float:
    wait()
    began = time.perf_counter()
    for _ in range(count):
        update()
    wait()
    return time.perf_counter() - began


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.variants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("recipe")
    parser.add_argument("changes", nargs="*", metavar="key=value", help="changes of every run")
    parser.add_argument("--try", dest="variants", action="append", default=[], metavar="'key=value ...'")
    parser.add_argument("--seconds", type=float, help="of training, for each run; as many epochs as it says without")
    parser.add_argument("--json", action="store_true", help="the figures as one JSON array")
    return parser.parse_intermixed_args(words)


def main(words: Sequence[str] | None = None) -> int:
    given = parse(words)
    found: dict[str, Result | str] = {}
    for variant in ("", *given.variants):
        try:
            found[variant] = judged(given.recipe, given.changes, variant, given.seconds)
        except (ClearheadError, RuntimeError) as problem:  # a compiler's failure is a RuntimeError
            found[variant] = (str(problem).splitlines() or ["failed"])[0]
        print(" ".join(line(variant, found[variant])), file=sys.stderr, flush=True)
        forget()
    results = [one for one in found.values() if isinstance(one, Result)]
    if given.json:
        print(json.dumps([asdict(one) for one in results]))
    else:
        print(table(HEADER, [line(variant, one) for variant, one in found.items()]))
    return 0 if len(results) == len(found) else 1


def forget() -> None:
    """What a run compiled and recorded: the next one has its own, and torch's limits count them all."""
    torch._dynamo.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def line(variant: str, result: Result | str) -> list[str]:
    name = variant or "as it is"
    if isinstance(result, str):
        return [name, "", "", "", result]
    share = result.error is not None
    value = f"{result.value:.2%} +- {result.error:.2%}" if share else f"{result.metric} {result.value:.4f}"
    return [name, f"{result.epochs:.1f}", str(result.updates), f"{result.seconds:.0f}", value]


if __name__ == "__main__":
    sys.exit(main())
