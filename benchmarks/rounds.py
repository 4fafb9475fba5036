"""Interleaved rounds: every contestant runs once a round, so that a busy or slowing machine hits all of them alike.

What is compared is the ratio inside a round, never two averages taken at different times: the median over the rounds,
with its 95% interval by bootstrap.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np

FEWEST = 20
RESAMPLES = 4000


@dataclass(frozen=True)
class Contestant:
    """`run` is timed; `around` is entered before the clock starts and left after it stops."""

    run: Callable[[], object]
    around: Callable[[], AbstractContextManager[object]] = nullcontext


@dataclass(frozen=True)
class Ratio:
    """The median of the rounds' ratios and its 95% interval."""

    median: float
    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Rounds:
    """Seconds by contestant, a value for each round."""

    seconds: dict[str, list[float]]

    @property
    def count(self) -> int:
        return len(next(iter(self.seconds.values())))

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name])

    def ratio(self, of: str, to: str) -> Ratio:
        """How many times as long as `to` the contestant `of` takes."""
        return median_ratio(self.seconds[of], self.seconds[to])


def median_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
    """Median of the paired ratios. Rounds are resampled with a fixed seed: equal times give an equal answer."""
    ratios = np.asarray(numerators) / np.asarray(denominators)
    picks = np.random.default_rng(0).integers(len(ratios), size=(RESAMPLES, len(ratios)))
    low, high = np.quantile(np.median(ratios[picks], axis=1), [0.025, 0.975])
    return Ratio(float(np.median(ratios)), float(low), float(high))


def interleave(
    contestants: Mapping[str, Contestant],
    rounds: int = FEWEST,
    *,
    warm: int = 2,
    synchronise: Callable[[], object] = lambda: None,
) -> Rounds:
    """Run all contestants `rounds` times, in changing order, after `warm` rounds that don't count."""
    result = Rounds({name: [] for name in contestants})
    with _no_garbage_collection():
        for turn in range(-warm, rounds):
            for name in _order(list(contestants), turn):
                seconds = _clock(contestants[name], synchronise)
                if turn >= 0:
                    result.seconds[name].append(seconds)
    return result


def interleave_until(
    contestants: Mapping[str, Contestant],
    of: str,
    to: str,
    *,
    narrower_than: float,
    rounds: int = FEWEST,
    at_most: int = 600,
) -> Rounds:
    """Add rounds until the interval of the ratio is narrower than asked, or there are `at_most`."""
    result = interleave(contestants, rounds)
    while result.ratio(of, to).width >= narrower_than and result.count < at_most:
        more = interleave(contestants, min(rounds, at_most - result.count), warm=0)
        for name, seconds in result.seconds.items():
            seconds += more.seconds[name]
    return result


def _order(names: list[str], turn: int) -> list[str]:
    """AB, BA, BA, AB: each finds the machine as each of the others left it equally often."""
    cycle, shift = divmod(turn, len(names))
    order = names[shift:] + names[:shift]
    return order[::-1] if cycle % 2 else order


def _clock(contestant: Contestant, synchronise: Callable[[], object]) -> float:
    with contestant.around():
        synchronise()
        start = time.perf_counter()
        contestant.run()
        synchronise()
        return time.perf_counter() - start


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
