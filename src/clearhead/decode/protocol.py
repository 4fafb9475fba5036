"""What decoding asks of a model, and nothing else: start, step, and a state whose rows can leave and arrive.

    state = model.start(inputs, lengths)     read the prompts or sources; state.logits score the first new token
    logits = model.step(tokens, state)       one more token in every row
    state.select(rows), state.join(other)    the same rows again, fewer, in another order; rows of two states together
    state.reorder(rows)                      as many rows as there are, in the memory they have

GPT, the encoder-decoder and T5 have it. Everything in this room works on it, whatever the family.
"""

from collections.abc import Sequence
from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor

from ..errors import ClearheadError
from ..models.base import Model
from .beam_rules import Beams, Hypothesis


class Rows(Protocol):
    logits: Tensor

    def __len__(self) -> int: ...

    def select(self, rows: list[int]) -> Self: ...

    def reorder(self, rows: list[int]) -> None: ...

    def join(self, other: Any) -> Self: ...


@runtime_checkable
class Decoder(Protocol):
    takes: tuple[str, ...]

    def start(self, inputs: Tensor, lengths: Tensor | None = None, **options: Any) -> Any: ...

    def step(self, tokens: Tensor, state: Any) -> Tensor: ...


class OnItsWay:
    """Tensors of the device that start for the host at once; `wait` waits for them, not for what is done behind them.

    On a CPU they are there already.
    """

    def __init__(self, *tensors: Tensor) -> None:
        self.host, self.arrived = tensors, None
        if tensors[0].is_cuda:
            self.host = tuple(torch.empty_like(t, device="cpu", pin_memory=True) for t in tensors)
            for there, here in zip(self.host, tensors, strict=True):
                there.copy_(here, non_blocking=True)
            self.arrived = torch.cuda.Event()
            self.arrived.record()

    def wait(self) -> tuple[Tensor, ...]:
        if self.arrived is not None:
            self.arrived.synchronize()
        return self.host


class Burst:
    """What a decoder wrote ahead: tokens and the logarithms of their probabilities, (steps, rows) on its device."""

    def __init__(self, tokens: Tensor, logprobs: Tensor) -> None:
        self.last, self._told = tokens[-1], OnItsWay(tokens, logprobs)

    def __len__(self) -> int:
        return len(self._told.host[0])

    def read(self) -> tuple[list[list[int]], list[list[float]]]:
        tokens, logprobs = self._told.wait()
        return tokens.tolist(), logprobs.tolist()


@runtime_checkable
class WritesAhead(Protocol):
    """A decoder that takes the best token and goes on by itself, several steps without a look of the host."""

    def ahead(self, tokens: Tensor, state: Any, count: int, never: frozenset[int]) -> Burst: ...


class Look:
    """Whether searches were still under way when it was asked for: a flag (1,) on their device."""

    def __init__(self, going: Tensor) -> None:
        self._told = OnItsWay(going.clone())

    def read(self) -> bool:
        (going,) = self._told.wait()
        return bool(going)


class Following(Protocol):
    """Beam searches under way on a device: `go_on` takes so many steps and waits for none of them."""

    def go_on(self, steps: int) -> None: ...

    def look(self) -> Look: ...

    def finished(self) -> list[list[Hypothesis]]: ...


@runtime_checkable
class FollowsBeams(Protocol):
    """A decoder that follows beams by itself. The state has a row for each search, and is used up."""

    def follow(self, state: Any, beams: Beams, end: frozenset[int], never: frozenset[int]) -> Following: ...


def check_decodes(model: Model) -> None:
    """A family without start and step reads, it does not write."""
    if not isinstance(model, Decoder):
        raise ClearheadError(f"{model.family} models don't write text: generating needs gpt, t5 or transformer")


def continues(model: Decoder) -> bool:
    """Whether what it writes goes on with its input (GPT), or answers it (an encoder-decoder)."""
    return tuple(model.takes) == ("text",)


def start(
    model: Decoder, inputs: Sequence[Sequence[int]], prefix: Sequence[int] | None = None, room: int | None = None
) -> Rows:
    """Begin with these prompts or sources, of any lengths; `prefix` is how every answer begins, if not as usual."""
    if not inputs or not all(inputs):
        raise ClearheadError("there is nothing to start from: a prompt has no token")
    if prefix is not None and not prefix:
        raise ClearheadError("there is nothing to start from: the answers' beginning has no token")
    device = model.device  # pyright: ignore[reportAttributeAccessIssue]
    ids, lengths = padded(inputs, device)
    options: dict[str, Any] = {}
    if prefix is not None:
        options["prefix"] = torch.tensor([list(prefix)] * len(inputs), device=device)
    if room is not None:
        options["room"] = room
    return model.start(ids, lengths, **options)


def padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Rows of numbers as one tensor, filled up on the right, and their lengths where these differ."""
    longest = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], device=device)
    if all(len(row) == longest for row in rows):
        return ids, None
    return ids, torch.tensor([len(row) for row in rows], device=device)
