"""Values that change within a run, as pure functions of how much of it is over: nothing has to be stored to resume.

A course is one value that holds throughout, or values with the shares of the run between them at which one takes over
from the other: `0.15, 0.75, 0.1` is 0.15 for three quarters of the run and 0.1 from then on.
"""

from collections.abc import Sequence
from typing import Any

from ..models.base import Config

Course = float | tuple[float, ...]


def value_at(course: Any, progress: float) -> Any:
    """The value that holds when this share of the run, from 0 to 1, is over."""
    if not isinstance(course, tuple):
        return course
    return course[::2][sum(progress >= share for share in course[1::2])]


def values_of(course: Any) -> Sequence[Any]:
    """Every value of a course, in turn."""
    return course[::2] if isinstance(course, tuple) else (course,)


def check_course(config: Config, name: str) -> None:
    """Shares of the run stand between values, and grow."""
    course = getattr(config, name)
    if not isinstance(course, tuple):
        return
    shares = course[1::2]
    numbers = all(isinstance(part, int | float) and not isinstance(part, bool) for part in course)
    good = numbers and len(course) % 2 == 1 and list(shares) == sorted(set(shares)) and all(0 < s < 1 for s in shares)
    config.require(good, f"{name} is one value, or value, share of the run, value ... such as 1, 0.75, 0: not {course}")


def check_rates(config: Config, name: str) -> None:
    """A course of values from 0 to below 1."""
    check_course(config, name)
    for value in values_of(getattr(config, name)):
        good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1
        config.require(good, f"{name} must be at least 0 and below 1, not {value!r}")
