"""The two ways a decoder runs, side by side: trained, it is shown the true words; tested, it must live on its own.

Teacher forcing puts the whole target in at once, so an error at one place does not reach the next. Testing feeds back
what was chosen, one token after the other, and an error changes everything behind it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..errors import ClearheadError
from .loop import beginnings, generate, without
from .pieces import Limits, collect
from .protocol import Decoder, continues, padded, start


@dataclass(frozen=True)
class Guess:
    """What the model held most likely at one place, how likely, and how likely it held the true token."""

    token: int
    probability: float
    true_probability: float | None = None


@dataclass(frozen=True)
class Modes:
    target: tuple[int, ...]
    forced: tuple[Guess, ...]
    free: tuple[Guess, ...]

    @property
    def first_difference(self) -> int | None:
        """Where the free run leaves the target for the first time, if it does."""
        pairs = enumerate(zip(self.target, (guess.token for guess in self.free), strict=False))
        return next((place for place, (true, own) in pairs if true != own), None)


@torch.inference_mode()
def compare_modes(
    model: Decoder,
    given: Sequence[int],
    target: Sequence[int],
    end: frozenset[int] = frozenset(),
    never: frozenset[int] = frozenset(),
    prefix: Sequence[int] | None = None,
) -> Modes:
    """Both modes on one prompt or source and its true continuation or translation."""
    if not given or not target:
        raise ClearheadError(f"there is no {'target to compare with' if given else 'prompt or source to start from'}")
    forced = _forced(model, given, target, never, prefix)
    limits = Limits(length=len(target), end=end, never=never)
    written = collect(1, generate(model, [given], limits, prefix=prefix))[0]
    free = [Guess(token, math.exp(p)) for token, p in zip(written.tokens, written.logprobs, strict=True)]
    return Modes(tuple(target), tuple(forced), tuple(free))


def _forced(
    model: Decoder,
    given: Sequence[int],
    target: Sequence[int],
    never: frozenset[int],
    prefix: Sequence[int] | None,
) -> list[Guess]:
    """One pass over all of the target but its last token: the guess at every place, from the true words before it."""
    device = model.device  # pyright: ignore[reportAttributeAccessIssue]
    if continues(model):
        ids, _ = padded([[*given, *target[:-1]]], device)
        logits = model(ids)[0, len(given) - 1 :]  # pyright: ignore[reportCallIssue]
    else:
        start(model, [given], prefix)  # says so in one line if the model does not know how targets begin
        begun = beginnings(model, [given], prefix)[0]
        source, _ = padded([given], device)
        shown, _ = padded([[*begun, *target[:-1]]], device)
        logits = model(source, shown)[0, len(begun) - 1 :]  # pyright: ignore[reportCallIssue]
    logits = logits.float()
    best = without(logits, never).argmax(-1)
    chances, places = logits.softmax(-1), torch.arange(len(target), device=device)
    true = chances[places, torch.tensor(list(target), device=device)]
    rows = zip(best.tolist(), chances[places, best].tolist(), true.tolist(), strict=True)
    return [Guess(token, probability, certain) for token, probability, certain in rows]
