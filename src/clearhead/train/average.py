"""Averages of weights: a running one while training (EMA), and the plain mean of several checkpoints."""

# pyright: reportPrivateImportUsage=false

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..convert import open_weights
from ..errors import ClearheadError, quoted
from ..models.base import Config


@dataclass(frozen=True, kw_only=True)
class Average(Config):
    """average <- decay * average + (1 - decay) * weights, after every update.

    warmup  at update n the decay is at most 1 - n^(-2/3), so that the random start is soon forgotten
    """

    decay: float = 0.9999
    warmup: bool = False

    def check(self) -> None:
        self.require_probabilities("decay")

    def at(self, update: int) -> float:
        """The decay of the update with this number, from 1."""
        return min(self.decay, 1 - update ** -(2 / 3)) if self.warmup else self.decay


class EMA:
    """The running average of a model's trainable weights, beside them on their device.

    What does not train (frozen weights, buffers) is not kept twice: it is the model's own.
    """

    def __init__(self, model: nn.Module, settings: Average) -> None:
        self.settings, self.updates = settings, 0
        self.share: float | Tensor = 0.0  # of the new weights; a tensor on the device if it must not be a constant
        self.weights = {name: weight.detach().clone() for name, weight in _trainable(model).items()}
        for name, weight in self.weights.items():
            if weight.dtype.itemsize < 4:
                kind = str(weight.dtype).removeprefix("torch.")
                raise ClearheadError(f"an average in {kind} would stand still ({name}): train float32 with autocast")

    def update(self, model: nn.Module) -> None:
        """Take in the weights as they are now."""
        self.advance()
        self.blend(model)

    def advance(self) -> None:
        """Count an update, and with it choose the share of the weights that come next."""
        self.updates += 1
        share = 1 - self.settings.at(self.updates)
        if isinstance(self.share, Tensor):
            self.share.fill_(share)
        else:
            self.share = share

    @torch.no_grad()
    def blend(self, model: nn.Module) -> None:
        now: dict[str, Tensor] = dict(model.named_parameters())
        kept, new = list(self.weights.values()), [now[name] for name in self.weights]
        if isinstance(self.share, Tensor):
            steps = torch._foreach_sub(new, kept)
            torch._foreach_mul_(steps, self.share)
            torch._foreach_add_(kept, steps)
        else:
            torch._foreach_lerp_(kept, new, self.share)

    @contextmanager
    def swapped(self, model: nn.Module) -> Iterator[None]:
        """The model has the averaged weights inside, and its own again behind, whatever happens.

        For evaluating and saving: what changes the weights inside is undone.
        """
        weights = dict(model.named_parameters())
        own = {name: weights[name].detach().clone() for name in self.weights}
        try:
            _put(weights, self.weights)
            yield
        finally:
            _put(weights, own)

    def state_dict(self) -> dict[str, Any]:
        """`updates`, a number, and `weights` by name (not copies)."""
        return {"updates": self.updates, "weights": dict(self.weights)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        loaded = state["weights"]
        _check_alike(self.weights, loaded, "the stored average")
        self.updates = int(state["updates"])
        _put(self.weights, loaded)


def _trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


@torch.no_grad()
def _put(weights: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    torch._foreach_copy_([weights[name] for name in values], list(values.values()))


def average_checkpoints(checkpoints: Sequence[Mapping[str, Tensor] | str | os.PathLike[str]]) -> dict[str, Tensor]:
    """The mean of several sets of weights: state dicts, or files of them. Whole numbers are the last one's.

    Sums are in float64, one tensor at a time, so files of any number are averaged in the memory of one.
    """
    if not checkpoints:
        raise ClearheadError("there are no checkpoints to average: give at least one")
    sets = [one if isinstance(one, Mapping) else open_weights(one) for one in checkpoints]
    for number, one in enumerate(sets[1:], 2):
        _check_alike(sets[0], one, f"checkpoint {number} of {len(sets)}")
    return {name: _mean([one[name].detach() for one in sets]) for name in sets[0]}


def _mean(tensors: list[Tensor]) -> Tensor:
    last = tensors[-1]
    if not last.is_floating_point():
        return last.clone()
    total = sum((tensor.double() for tensor in tensors[1:]), tensors[0].double())
    return (total / len(tensors)).to(last.dtype)


def _check_alike(first: Mapping[str, Tensor], other: Mapping[str, Tensor], label: str) -> None:
    for name in [*first, *other]:
        if name not in first or name not in other:
            raise ClearheadError(f"{label} {'has' if name in other else 'lacks'} {quoted(name)}: it is another model's")
        if first[name].shape != other[name].shape:
            shapes = f"{tuple(other[name].shape)}, not {tuple(first[name].shape)}"
            raise ClearheadError(f"{label} has {quoted(name)} with shape {shapes}: it is another model's")
