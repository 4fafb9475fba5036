"""What decoding asks of a model, and nothing else: start, step, and a state whose rows can leave and arrive.

    state = model.start(inputs, lengths)     read the prompts or sources; state.logits score the first new token
    logits = model.step(tokens, state)       one more token in every row
    state.select(rows), state.join(other)    the same rows again, fewer, in another order; rows of two states together

GPT, the encoder-decoder and T5 have it. Everything in this room works on it, whatever the family.
"""

from collections.abc import Sequence
from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor

from ..errors import ClearheadError
from ..models.base import Model


class Rows(Protocol):
    logits: Tensor

    def __len__(self) -> int: ...

    def select(self, rows: list[int]) -> Self: ...

    def join(self, other: Any) -> Self: ...


@runtime_checkable
class Decoder(Protocol):
    takes: tuple[str, ...]

    def start(self, inputs: Tensor, lengths: Tensor | None = None, **options: Any) -> Any: ...

    def step(self, tokens: Tensor, state: Any) -> Tensor: ...


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
