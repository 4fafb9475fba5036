"""Do batches keep up with a GPU? How much of its time a recipe's updates use, at several places of the run.

    python -m benchmarks.busy [vit-cifar10 translate-multi30k] [key=value ...] [--at 0 0.8] [--kernels 30] [--json]

`busy` is the time in which any kernel runs, by torch's profiler, over the time that as many updates take without it.
Where kernels are small, what it lacks are the gaps between them, which no batch can fill. `at hand` are the same
updates with the same batches, all made before the clock starts, and `fed` is their time over that of updates whose
batches are made on the way: what it lacks is what batches cost, on whichever side. `host` is how long the host takes
to ask for an update: as long as an update, and it is the host that all wait for. `--kernels` lists those that take the
longest. `key=value` changes the recipes as in `clearhead train`. The data must be at hand (CLEARHEAD_DATA); nothing
is saved but in a folder that is thrown away.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from clearhead.errors import ClearheadError
from clearhead.train.job import Watch
from clearhead.train.loop import Trainer
from clearhead.train.ranks import Ranks

from . import table
from .stages import one_stage

WARM = 150  # updates before the first measurement, at least
PATIENCE = 12  # times that many, at most, until every shape of batch is recorded
HEADER = ["recipe", "at", "ms an update", "host", "at hand", "fed", "kernels' ms", "kernels", "busy"]


@dataclass(frozen=True)
class Result:
    recipe: str
    at: float
    ms: float
    host_ms: float
    at_hand_ms: float
    fed: float
    kernels_ms: float
    kernels: float
    busy: float
    longest: list[tuple[str, float, float]]  # name, ms and number in an update, the first takes the longest


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """How much of a line spans (from, to) cover, where they overlap once."""
    total, end = 0.0, float("-inf")
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total


def by_name(spans: Iterable[tuple[str, float, float]], updates: int) -> list[tuple[str, float, float]]:
    """Kernels (name, from, to in microseconds) of so many updates, as milliseconds and number in each."""
    found: dict[str, list[float]] = defaultdict(list)
    for name, first, last in spans:
        found[name].append(last - first)
    sums = [(name, sum(times) / updates / 1e3, len(times) / updates) for name, times in found.items()]
    return sorted(sums, key=lambda one: -one[1])


def measure(name: str, changes: Sequence[str], places: Sequence[float], updates: int) -> list[Result]:
    run, device = one_stage(name, [], list(changes)), torch.device("cuda")
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(run, Path(folder), Ranks(0, 1, device), Watch(), run.spec.open())
        return [_measured(trainer, name, place, updates) for place in places]


def _measured(trainer: Trainer, name: str, place: float, updates: int) -> Result:
    trainer.step = int(place * trainer.steps)
    warm_up(trainer)
    first = trainer.step  # it goes on from there: whoever goes back finds nothing made ahead
    asked, seconds = asked_and_done(trainer.update, updates)
    trainer.step = first
    at_hand = _at_hand(trainer, updates)
    with profile(activities=[ProfilerActivity.CUDA]) as watched:
        seconds_of(trainer.update, updates)
    events = [event for event in watched.events() or [] if event.device_type == torch.autograd.DeviceType.CUDA]
    spans = [(event.name, event.time_range.start, event.time_range.end) for event in events]
    kernels = covered(span[1:] for span in spans) / 1e6
    ms, count = 1e3 / updates, len(events) / updates
    fed, busy, longest = at_hand / seconds, kernels / seconds, by_name(spans, updates)
    return Result(name, place, seconds * ms, asked * ms, at_hand * ms, fed, kernels * ms, count, busy, longest)


def warm_up(trainer: Trainer) -> None:
    """Updates until one epoch of them has recorded nothing new: a shape of batch that is rare is recorded late."""
    per_epoch = math.ceil(trainer.task.batches_per_epoch(trainer.settings.batching) / trainer.settings.accumulate)
    for _ in range(PATIENCE):
        before = None if trainer.recorded is None else trainer.recorded.seconds
        seconds_of(trainer.update, max(WARM, per_epoch))
        if trainer.recorded is None or trainer.recorded.seconds == before:
            return


def _at_hand(trainer: Trainer, updates: int) -> float:
    """How long the next updates take with all their batches made before; the trainer stands where it stood."""
    first, each, made = trainer.step, trainer.settings.accumulate, trainer._batch
    ready = {number: made(number) for number in range(first * each, (first + updates) * each)}
    trainer._batch = ready.__getitem__
    seconds = seconds_of(trainer.update, updates)
    trainer.step, trainer._batch = first, made
    return seconds


def seconds_of(update: Callable[[], object], count: int) -> float:
    """How long so many updates take, the device's work included."""
    return asked_and_done(update, count)[1]


def asked_and_done(update: Callable[[], object], count: int) -> tuple[float, float]:
    """How long the host takes to ask for so many updates, and how long it is until all are done."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    wait()
    began = time.perf_counter()
    for _ in range(count):
        update()
    asked = time.perf_counter() - began
    wait()
    return asked, time.perf_counter() - began


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "words", nargs="*", metavar="recipe|key=value", help="vit-cifar10, translate-multi30k by default"
    )
    parser.add_argument("--at", nargs="+", type=float, default=[0.0, 0.8], help="shares of the run, from 0 to 1")
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--kernels", type=int, default=0, metavar="N", help="list the N kernels that take the longest")
    parser.add_argument("--json", action="store_true", help="the figures as one JSON object")
    given = parser.parse_args(words)
    changes = [word for word in given.words if "=" in word]
    names = [word for word in given.words if "=" not in word] or ["vit-cifar10", "translate-multi30k"]
    try:
        if not torch.cuda.is_available():
            raise ClearheadError("there is no CUDA device to keep busy")
        found = [result for name in names for result in measure(name, changes, given.at, given.updates)]
    except ClearheadError as problem:
        print(f"busy: {problem}", file=sys.stderr)
        return 1
    if given.json:
        print(json.dumps([asdict(result) for result in found]))
    else:
        for result in found if given.kernels else []:
            print(f"{result.recipe} at {result.at:.0%}:")
            print(table(["kernel", "ms", "times"], [_kernel(one) for one in result.longest[: given.kernels]]), "\n")
        print(table(HEADER, [_line(result) for result in found]))
    return 0


def _kernel(one: tuple[str, float, float]) -> list[str]:
    name, ms, times = one
    return [name[:100], f"{ms:.3f}", f"{times:.1f}"]


def _line(result: Result) -> list[str]:
    times = *(f"{ms:.2f}" for ms in (result.ms, result.host_ms, result.at_hand_ms)), f"{result.fed:.1%}"
    kernels = f"{result.kernels_ms:.2f}", f"{result.kernels:.0f}", f"{result.busy:.1%}"
    return [result.recipe, f"{result.at:.0%}", *times, *kernels]


if __name__ == "__main__":
    sys.exit(main())
