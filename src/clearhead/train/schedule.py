"""The rate over a run, as pure functions: the number of updates made before this one -> factor of the highest rate.

All rise in a straight line from 0 to 1 over `warmup` updates. Then `cosine` and `linear` fall to `floor` at `steps` and
stay there; `inverse-sqrt` falls as 1/sqrt(step) (Vaswani et al. 2017), never below `floor`; `constant` stays.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..models.base import Config

UNWARMED = 10_000


def cosine(step: int, steps: int, warmup: int = 0, floor: float = 0.0) -> float:
    progress = min(1.0, (step - warmup) / max(1, steps - warmup))
    share = 0.5 * (1 + math.cos(math.pi * progress))
    return _warmed(step, warmup, floor + (1 - floor) * share)


def linear(step: int, steps: int, warmup: int = 0, floor: float = 0.0) -> float:
    share = max(0, steps - step) / max(1, steps - warmup)
    return _warmed(step, warmup, floor + (1 - floor) * share)


def inverse_sqrt(step: int, steps: int, warmup: int = 0, floor: float = 0.0) -> float:
    """Without a warm-up it starts as if UNWARMED updates lay behind it: 1/sqrt falls steeply at first."""
    span = warmup or UNWARMED
    return _warmed(step, warmup, max(floor, math.sqrt(span / max(1, step + span - warmup))))


def constant(step: int, steps: int, warmup: int = 0, floor: float = 0.0) -> float:
    return _warmed(step, warmup, 1.0)


def _warmed(step: int, warmup: int, factor: float) -> float:
    return step / warmup if step < warmup else factor


SCHEDULES: dict[str, Callable[[int, int, int, float], float]] = {
    "cosine": cosine,
    "inverse-sqrt": inverse_sqrt,
    "linear": linear,
    "constant": constant,
}


@dataclass(frozen=True, kw_only=True)
class Schedule(Config):
    """steps: how many updates the run makes; warmup: how many of them the rate rises; floor: where it ends, of 1."""

    steps: int
    name: str = "cosine"
    warmup: int = 0
    floor: float = 0.0

    def check(self) -> None:
        self.require_choice("name", SCHEDULES)
        self.require(_whole(self.steps) and self.steps > 0, f"steps must be a whole number from 1, not {self.steps!r}")
        good = _whole(self.warmup) and 0 <= self.warmup <= self.steps
        self.require(good, f"warmup must be a whole number from 0 to steps ({self.steps}), not {self.warmup!r}")
        self.require(0 <= self.floor <= 1, f"floor must be from 0 to 1, not {self.floor!r}")
        falls = self.name != "constant" or self.floor == 0
        self.require(falls, "a constant schedule falls nowhere: leave floor out")

    def factor(self, step: int) -> float:
        """What the rates are multiplied with for the update behind `step` others."""
        return SCHEDULES[self.name](step, self.steps, self.warmup, self.floor)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
