"""What the loop adds to the steps it makes: batches from the data, metrics, event files, states, and its own decisions.

The real loop trains; at every line of metrics (each ten updates) it is held for as long as ten bare steps take: the
same model, optimiser and kind of batch, prepared before. So both meet the same machine in turns. A state is saved every
hundred updates, far more often than runs do. Validations are no overhead, and happen outside the rounds.
`overhead` is the median over the rounds; `with states` is that of all rounds together, those that saved among them.
"""

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clearhead.data.kinds import Dataset, Pictures
from clearhead.train.job import Run, Watch
from clearhead.train.language import LanguageSpec
from clearhead.train.loop import train
from clearhead.train.optimiser import build
from clearhead.train.pictures import PictureSpec, PictureTask
from clearhead.train.settings import Settings
from clearhead.train.task import Batching, Spec, Task

from .rounds import Ratio, median_ratio

UPDATES = 10  # between two lines of metrics: a round
SAVED = 100  # updates between two states
PREPARED = 4  # batches that the bare steps take in turn
LIMIT = 0.02
HEADER = ["the loop, CPU, two threads, fp32", "ms an update", "bare ms", "overhead [95%]", "with states"]


@dataclass(frozen=True)
class Result:
    row: str
    rounds: int
    ms: float
    bare_ms: float
    ratio: Ratio
    with_states: float

    @property
    def good(self) -> bool:
        return max(self.ratio.median, self.with_states) < 1 + LIMIT


def pictures(folder: Path) -> tuple[Spec, Task]:
    """Random pictures of CIFAR's size, cropped and flipped as one trains on them."""
    fields = {"layers": 6, "patch": 4}
    spec = PictureSpec(model="vit-ti16", fields=fields, data="random", augmentation={"crop": 4, "flip": 0.5})
    sizes = {"train": 4096, "valid": 64}
    parts = {
        name: Pictures(torch.randint(256, (size, 3, 32, 32), dtype=torch.uint8), torch.arange(size) % 10)
        for name, size in sizes.items()
    }
    return spec, PictureTask(spec, Dataset("random", "pictures", parts, tuple("0123456789")))


def letters(folder: Path) -> tuple[Spec, Task]:
    """Random letters, learnt letter by letter."""
    files = folder / "train.txt", folder / "valid.txt"
    for file, size in zip(files, (1 << 18, 1 << 10), strict=True):
        file.write_bytes(bytes(torch.randint(ord("A"), ord("z"), (size,), dtype=torch.uint8).tolist()))
    fields: dict[str, Any] = {"width": 192, "layers": 6, "heads": 3, "context": 128}
    fields |= {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}
    spec = LanguageSpec(
        model="gpt2", fields=fields, data=(str(files[0]),), valid=(str(files[1]),), tokenizer="characters"
    )
    return spec, spec.open()


ROWS: dict[str, tuple[Callable[[Path], tuple[Spec, Task]], int]] = {
    "loop: vit, width 192, 64 pictures of 32 x 32": (pictures, 64),
    "loop: gpt, width 192, 16 x 128": (letters, 16),
}


def measure(row: str, rounds: int) -> Result:
    make, size = ROWS[row]
    steps = UPDATES * (rounds + 1)  # the first round warms up
    settings = Settings(
        steps=steps,
        batching=Batching(size=size),
        log_every=UPDATES,
        validate_every=steps,
        save_every=SAVED,
        device="cpu",
        compile=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        spec, task = make(Path(folder))
        clock = Clock(bare_step(task, settings))
        train(Run("overhead", spec, settings), Path(folder) / "run", Watch(updated=clock.updated), task)
    ratio = median_ratio(clock.loop, clock.bare)
    loop, bare = (sum(seconds) / len(seconds) / UPDATES * 1e3 for seconds in (clock.loop, clock.bare))
    return Result(row, len(clock.loop), loop, bare, ratio, loop / bare)


def bare_step(task: Task, settings: Settings) -> Callable[[], None]:
    """A model and an optimiser of its own, and batches that are there already."""
    model = task.model(settings.seed).train()
    updater = build(model, settings.optimiser)
    device = torch.device("cpu")
    batches = [task.batch(number, settings.batching, 0, 1, device) for number in range(PREPARED)]
    turns: Iterator[Any] = itertools.cycle(batches)

    def step() -> None:
        batch = next(turns)
        (task.losses(model, batch)["loss"] / task.weight(batch)).backward()
        updater.clip_gradients()
        updater.step()
        updater.zero_grad()

    return step


class Clock:
    """Seconds of each round: of the loop between two of its lines, and of as many bare steps right behind."""

    def __init__(self, step: Callable[[], None]) -> None:
        self.step, self.loop, self.bare = step, list[float](), list[float]()
        self._since: float | None = None

    def updated(self, step: int, steps: int, figures: Mapping[str, float]) -> None:
        now = time.perf_counter()
        for _ in range(UPDATES):
            self.step()
        held = time.perf_counter()
        if self._since is not None:
            self.loop.append(now - self._since)
            self.bare.append(held - now)
        self._since = time.perf_counter()


def line(result: Result) -> list[str]:
    times = f"{result.ms:.1f}", f"{result.bare_ms:.1f}"
    return [result.row, *times, overhead(result.ratio), f"{result.with_states - 1:+.1%}"]


def overhead(ratio: Ratio) -> str:
    return f"{ratio.median - 1:+.1%} [{ratio.low - 1:+.1%}, {ratio.high - 1:+.1%}]"


def verdict(result: Result) -> str:
    spoken = "under" if result.good else "NOT UNDER"
    return f"{result.row}: {spoken} {LIMIT:.0%} ({overhead(result.ratio)}; with states {result.with_states - 1:+.1%})"
