"""LoRA (Hu et al. 2021): a linear layer stays as it is and learns a change of low rank, x W^T + alpha/rank (x A^T) B^T.

A starts random and B at zero, so nothing changes at first. Only A and B train. `merge` adds their product to W and puts
the plain layer back: a merged model is saved, loaded and run like any other.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from ..errors import ClearheadError
from ..layers import Int8Linear
from ..layers.attention import some_outputs
from ..layers.dropout import dropped
from ..models.base import Config
from .freeze import matching

EVERY_BLOCK = ("*.blocks.*",)


@dataclass(frozen=True, kw_only=True)
class LoRA(Config):
    """targets: globs of linear layers' names, all in the blocks unless given; dropout: of what A reads, in training."""

    targets: tuple[str, ...] = EVERY_BLOCK
    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0

    def check(self) -> None:
        self.require_sizes("rank")
        self.require_probabilities("dropout")
        self.require(math.isfinite(self.alpha) and self.alpha > 0, f"alpha must be above 0, not {self.alpha!r}")
        named = isinstance(self.targets, tuple) and self.targets and all(isinstance(t, str) for t in self.targets)
        self.require(bool(named), f"targets must be globs of linear layers' names, not {self.targets!r}")


class LoRALinear(nn.Module):
    """A linear layer and its change. `weight` and `bias` are what the two amount to, as another layer would ask."""

    def __init__(self, base: nn.Linear, settings: LoRA, random: Generator | None = None) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.scale, self.dropout = settings.alpha / settings.rank, settings.dropout
        self.lora_a = nn.Parameter(base.weight.new_empty(settings.rank, base.in_features))
        self.lora_b = nn.Parameter(base.weight.new_zeros(base.out_features, settings.rank))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5), generator=random)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self._change(x, self.lora_b)

    def part(self, x: Tensor, outputs: slice) -> Tensor:
        """Some of the outputs alone."""
        return some_outputs(self.base, x, outputs) + self._change(x, self.lora_b[outputs])

    def _change(self, x: Tensor, lora_b: Tensor) -> Tensor:
        return F.linear(F.linear(dropped(x, self.dropout, self.training), self.lora_a), lora_b) * self.scale

    @property
    def weight(self) -> Tensor:
        return self.base.weight + self.scale * (self.lora_b @ self.lora_a)

    @property
    def bias(self) -> Tensor | None:
        return self.base.bias


def add_lora(model: nn.Module, settings: LoRA, random: Generator | None = None) -> list[str]:
    """Adapt the chosen linear layers, in place, and freeze all else; the names of those layers.

    A head that must train too is unfrozen afterwards.
    """
    if adapted(model):
        raise ClearheadError("the model has LoRA layers already: merge them first")
    layers = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    names = matching({name: [name] for name in layers}, settings.targets, "no linear layer")
    model.requires_grad_(False)
    for name in names:
        replace_layer(model, name, LoRALinear(layers[name], settings, random))
    return names


@torch.no_grad()
def merge(model: nn.Module) -> list[str]:
    """Put plain linear layers back with the changes added to their weights, in place; their names. They stay frozen."""
    found = adapted(model)
    for name, layer in found.items():
        if isinstance(layer.base, Int8Linear):
            raise ClearheadError(f"{name} is in 8 bits, a change can't be merged into it: merge first, quantise then")
    for name, layer in found.items():
        layer.base.weight.copy_(layer.weight)
        replace_layer(model, name, layer.base)
    return list(found)


def adapted(model: nn.Module) -> dict[str, LoRALinear]:
    """The layers that have a change of low rank, by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, LoRALinear)}


def replace_layer(model: nn.Module, name: str, layer: nn.Module) -> None:
    inside, _, child = name.rpartition(".")
    setattr(model.get_submodule(inside), child, layer)
