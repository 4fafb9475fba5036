"""Beam searches that a device goes through by itself: while the host looks whether they are over, it is ahead."""

from .beam_rules import Hypothesis
from .protocol import Following

STEPS = 4  # between two looks


def searched_ahead(following: Following, length: int) -> list[list[Hypothesis]]:
    """What each search found, the best first. The end is noticed late: steps that come behind it change nothing."""
    left, look = length - 1, None  # the first tokens are there
    while left > 0:
        following.go_on(min(STEPS, left))
        left -= STEPS
        if look is not None and not look.read():
            break
        look = following.look()
    return following.finished()
