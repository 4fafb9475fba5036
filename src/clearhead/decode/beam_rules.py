"""What a beam search is asked for, and what it finds."""

import math
from dataclasses import dataclass

from ..errors import ClearheadError

LARGEST_EXPONENT = 700  # e^700 and e^-700 are numbers that a float can hold


@dataclass(frozen=True)
class Beams:
    """count         how many sentences are followed
    length_penalty   above 0 long sentences are favoured, below 0 short ones; 0 compares summed log probabilities
    early_stopping   True: stop with `count` finished ones; False: when none under way, at its present length, beats
                     the worst of them; "never": when none under way could beat it at any length
    length           tokens a sentence may have, its end token counted
    """

    count: int = 4
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    length: int = 64

    def __post_init__(self) -> None:
        for name in ("count", "length"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                spoken = {"count": "the number of beams", "length": "a length"}[name]
                raise ClearheadError(f"{spoken} must be a whole number of at least 1, not {value!r}")
        penalty = self.length_penalty
        if isinstance(penalty, bool) or not isinstance(penalty, int | float) or not math.isfinite(penalty):
            raise ClearheadError(f"length_penalty must be a number, not {penalty!r}")
        if abs(penalty) * math.log(self.length) > LARGEST_EXPONENT:
            raise ClearheadError(f"a length_penalty of {penalty!r} is too much for {self.length} tokens")
        if not isinstance(self.early_stopping, bool) and self.early_stopping != "never":
            raise ClearheadError(f"early_stopping must be true, false or 'never', not {self.early_stopping!r}")

    def score(self, logprob: float, length: int) -> float:
        return logprob / length**self.length_penalty

    def hoped_length(self, step: int) -> int:
        """At which length a sentence under way, now of `step` tokens, is compared with the finished ones."""
        return self.length if self.early_stopping == "never" and self.length_penalty > 0 else step

    def candidates(self, ends: int) -> int:
        """How many continuations a step looks at: with so many, `count` go on even if all end tokens are among them."""
        return max(2, 1 + ends) * self.count


@dataclass(frozen=True)
class Hypothesis:
    """A finished sentence; its end token, if it came to one, is its last. `node` is its place in the tree, or -1."""

    tokens: tuple[int, ...]
    score: float
    logprob: float
    node: int
