"""Answers are computed once, the last ones are kept, and a failure is not."""

import threading

import pytest

from clearhead.errors import ClearheadError
from clearhead.studio.remembered import Remembered


def test_many_who_ask_at_once_get_one_computation():
    kept, made, together = Remembered[int](4), [], threading.Barrier(6)
    found = []

    def ask() -> None:
        together.wait()
        found.append(kept.get("key", lambda: made.append(1) or len(made)))

    tabs = [threading.Thread(target=ask) for _ in range(6)]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join()
    assert found == [1] * 6
    assert made == [1]


def test_the_one_not_asked_for_longest_is_forgotten():
    kept, made = Remembered[str](2), []
    for key in ("a", "b", "a", "c", "a", "b"):
        kept.get(key, lambda key=key: made.append(key) or key)
    assert made == ["a", "b", "c", "b"]


def test_a_failure_is_told_and_tried_again():
    kept = Remembered[int](2)

    def fails() -> int:
        raise ClearheadError("not now")

    with pytest.raises(ClearheadError, match="not now"):
        kept.get("key", fails)
    assert kept.get("key", lambda: 3) == 3
