"""The optimiser: which weights move, at what rate, and how.

AdamW moves every weight, or Muon the matrices of the blocks and AdamW the rest. Weights are grouped by three rules:

decay  matrices that rows are multiplied with decay (of linear layers, LoRA's too); what is looked up or added does not:
       tables of tokens, positions, segments and distances, class tokens, biases, norms
rates  a weight at distance d from the top moves at rate * layer_decay ** d. The head, and a norm behind the last block,
       stand at the top (d = 0), the last block of each stack at 1, the block before it at 2, and what a stack is fed
       with (embeddings, T5's tables of distances) at the bottom, one below the first block of the deepest stack
Muon   takes the weights of the blocks' linear layers: q, k and v are three matrices, and so are the two halves of a
       gated layer. Vectors, tables, heads and LoRA's thin factors stay with AdamW.

Frozen weights belong to no group: nothing touches them.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ClearheadError, quoted
from ..layers import GatedFeedForward, LearnedPositions, RelativeBias, SelfAttention, TokenEmbedding
from ..models.base import Config
from .muon import SCALES, Muon

TABLES = (TokenEmbedding, LearnedPositions, RelativeBias)
FED = ("input.", "source.", "target.", "encoder_bias.", "decoder_bias.")  # what stands below the first block
BLOCK = re.compile(r"^(?P<stack>.*?)\bblocks\.(?P<number>\d+)\.")
FUSED = ("cpu", "cuda", "mps", "xpu")  # devices on which torch's AdamW is one kernel
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


@dataclass(frozen=True, kw_only=True)
class Optimiser(Config):
    """What a run says about its optimiser.

    name         "adamw", or "muon": Muon for the blocks' matrices, AdamW for the rest
    rate         the highest rate; a schedule multiplies it
    adam_rate    for muon: the rate of what AdamW moves, `rate` unless given
    layer_decay  each step down from the top multiplies the rate by this
    clip         the largest global norm of the gradients; None: they are measured, not clipped
    momentum, nesterov   Muon's own
    muon_scale   "adamw": updates as large as AdamW's, so that its rates fit; or "original"
    muon_dtype   of Newton and Schulz's iteration: bfloat16 or float32
    """

    name: str = "adamw"
    rate: float = 1e-3
    adam_rate: float | None = None
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01
    layer_decay: float = 1.0
    clip: float | None = 1.0
    momentum: float = 0.95
    nesterov: bool = True
    muon_scale: str = "adamw"
    muon_dtype: str = "bfloat16"

    def check(self) -> None:
        self.require_choice("name", ("adamw", "muon"))
        self.require_choice("muon_scale", SCALES)
        self.require_choice("muon_dtype", DTYPES)
        self.require_probabilities("momentum")
        for name in ("rate", "adam_rate", "eps", "clip"):
            value = getattr(self, name)
            optional = name in ("adam_rate", "clip") and value is None
            self.require(optional or _number(value, above=0), f"{name} must be a number above 0, not {value!r}")
        decay = self.weight_decay
        self.require(_number(decay) and decay >= 0, f"weight_decay must be 0 or more, not {decay!r}")
        good = _number(self.layer_decay, above=0) and self.layer_decay <= 1
        self.require(good, f"layer_decay must be above 0 and at most 1, not {self.layer_decay!r}")
        pair = isinstance(self.betas, tuple) and len(self.betas) == 2
        good = pair and all(_number(beta) and 0 <= beta < 1 for beta in self.betas)
        self.require(good, f"betas must be two numbers from 0 to below 1, not {self.betas!r}")
        if self.name != "muon":
            self.require(self.adam_rate is None, "adam_rate goes with name 'muon': AdamW alone has `rate`")


def _number(value: object, above: float = -math.inf) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > above


@dataclass(frozen=True)
class Group:
    """Weights that move alike, by name."""

    method: str
    rate: float
    weight_decay: float
    weights: dict[str, nn.Parameter] = field(default_factory=dict)


def parameter_groups(model: nn.Module, settings: Optimiser) -> list[Group]:
    """The model's trainable weights by method, rate and decay, in the order of their first members."""
    below = distances(model)
    groups: dict[tuple[str, float, float], Group] = {}
    for name, weight in model.named_parameters():
        if not weight.requires_grad:
            continue
        owner = model.get_submodule(name.rpartition(".")[0])
        method = "muon" if settings.name == "muon" and _is_hidden_matrix(name, owner) else "adamw"
        start = settings.adam_rate if settings.name == "muon" and method == "adamw" else None
        rate = (settings.rate if start is None else start) * settings.layer_decay ** below[name]
        decay = settings.weight_decay if weight.ndim > 1 and not isinstance(owner, TABLES) else 0.0
        groups.setdefault((method, rate, decay), Group(method, rate, decay)).weights[name] = weight
    if not groups:
        raise ClearheadError("there is nothing to train: every weight is frozen")
    return list(groups.values())


def distances(model: nn.Module) -> dict[str, int]:
    """How far each weight stands from the top, by the rule above."""
    names = [name for name, _ in model.named_parameters()]
    places = {name: found for name in names if (found := BLOCK.match(name))}
    depths: dict[str, int] = {}
    for place in places.values():
        depths[place["stack"]] = max(depths.get(place["stack"], 0), int(place["number"]) + 1)
    bottom = max(depths.values(), default=0) + 1

    def distance(name: str) -> int:
        if name in places:
            return depths[places[name]["stack"]] - int(places[name]["number"])
        return bottom if name.startswith(FED) else 0

    return {name: distance(name) for name in names}


def _is_hidden_matrix(name: str, owner: nn.Module) -> bool:
    return isinstance(owner, nn.Linear) and name.endswith(".weight") and BLOCK.match(name) is not None


def matrices_of(model: nn.Module, name: str) -> tuple[int, ...]:
    """The rows of each matrix that a weight holds: q, k, v; gate and up; else itself."""
    layer, rows = name.removesuffix(".weight"), len(model.get_parameter(name))
    inside, _, child = layer.rpartition(".")
    owner = model.get_submodule(inside)
    if isinstance(owner, SelfAttention) and child == "qkv":
        return owner.sizes
    if isinstance(owner, GatedFeedForward) and child == "gate_up":
        return rows // 2, rows // 2
    return (rows,)


class Updater:
    """AdamW, or Muon and AdamW, as one: clip, step, forget the gradients.

    It keeps no rate between steps: `step` is told the schedule's factor, and each of `param_groups` has a `base_rate`.
    """

    def __init__(self, optimisers: Mapping[str, torch.optim.Optimizer], clip: float | None = None) -> None:
        self.optimisers, self.clip = dict(optimisers), clip

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for optimiser in self.optimisers.values() for group in optimiser.param_groups]

    def zero_grad(self) -> None:
        for optimiser in self.optimisers.values():
            optimiser.zero_grad(set_to_none=True)

    def clip_gradients(self) -> Tensor:
        """The global norm before clipping, a tensor on the device. The caller looks whether it is finite."""
        return clip_gradients((weight for group in self.param_groups for weight in group["params"]), self.clip)

    def rates_on(self, device: torch.device) -> None:
        """From here on rates are tensors: a recorded update reads them there."""
        for group in self.param_groups:
            group["lr"] = torch.tensor(float(group["base_rate"]), device=device)

    def set_rates(self, factor: float) -> None:
        """Each group's rate is `factor` times its own."""
        for group in self.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(group["base_rate"] * factor)
            else:
                group["lr"] = group["base_rate"] * factor

    def step(self, factor: float | None = 1.0) -> None:
        """Move the weights at `factor` times the rate of each group; None: at the rates that are set."""
        if factor is not None:
            self.set_rates(factor)
        for optimiser in self.optimisers.values():
            optimiser.step()

    def state_dict(self) -> dict[str, Tensor]:
        """All that a later step needs beyond the settings: `weight's name.kind` -> tensor. Not copies."""
        return {
            f"{name}.{kind}": tensor
            for optimiser in self.optimisers.values()
            for name, weight in _named(optimiser).items()
            for kind, tensor in optimiser.state.get(weight, {}).items()
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state_dict` gave. Weights that it does not name never had a gradient: they start anew."""
        known = {name: key for key, optimiser in self.optimisers.items() for name in _named(optimiser)}
        found: dict[str, dict[str, dict[str, Tensor]]] = {key: {} for key in self.optimisers}
        for entry, tensor in state.items():
            name, _, kind = entry.rpartition(".")
            if name not in known:
                raise ClearheadError(f"the optimiser's state has {quoted(entry)}, which this run does not train")
            found[known[name]].setdefault(name, {})[kind] = tensor
        for key in self.optimisers:  # all is checked before anything is changed
            self._check(key, found[key])
        for key, optimiser in self.optimisers.items():
            numbers = {name: number for number, name in enumerate(_named(optimiser))}
            states = {numbers[name]: kinds for name, kinds in found[key].items()}
            optimiser.load_state_dict({"state": states, "param_groups": optimiser.state_dict()["param_groups"]})

    def _check(self, key: str, found: Mapping[str, Mapping[str, Tensor]]) -> None:
        expected = {"adamw": {"step", "exp_avg", "exp_avg_sq"}, "muon": {"momentum_buffer"}}[key]
        weights = _named(self.optimisers[key])
        for name, kinds in found.items():
            if set(kinds) != expected:
                raise ClearheadError(f"the optimiser's state of {quoted(name)} must be {', '.join(sorted(expected))}")
            if any(kind != "step" and tensor.shape != weights[name].shape for kind, tensor in kinds.items()):
                raise ClearheadError(f"the optimiser's state of {quoted(name)} has another shape than the weight")


def _named(optimiser: torch.optim.Optimizer) -> dict[str, nn.Parameter]:
    """The weights that an optimiser moves, by name, in its own order."""
    return {
        name: weight
        for group in optimiser.param_groups
        for name, weight in zip(group["param_names"], group["params"], strict=True)
    }


def clip_gradients(weights: Iterable[Tensor], limit: float | None) -> Tensor:
    """Scale all gradients so that their norm together is at most `limit`; give the norm that they had.

    A norm that is NaN or infinite is given as it is and the gradients stay as they are, so that the culprit can be
    found. Nothing here waits for the device.
    """
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    norm = nn.utils.get_total_norm(gradients)
    if limit is not None and gradients:
        factor = (limit / (norm + 1e-6)).clamp(max=1.0)
        scaled = torch.where(norm.isfinite(), factor, 1.0)
        torch._foreach_mul_(gradients, scaled)  # pyright: ignore[reportPrivateImportUsage]
    return norm


def build(model: nn.Module, settings: Optimiser) -> Updater:
    """The optimiser of a model that stands on its device already."""
    groups = parameter_groups(model, settings)
    options: dict[str, list[dict[str, Any]]] = {}
    for group in groups:
        option = {"params": list(group.weights.items()), "lr": group.rate, "base_rate": group.rate}
        option["weight_decay"] = group.weight_decay
        if group.method == "muon":
            option["parts"] = [matrices_of(model, name) for name in group.weights]
        options.setdefault(group.method, []).append(option)
    made: dict[str, torch.optim.Optimizer] = {}
    if "muon" in options:
        how = {"momentum": settings.momentum, "nesterov": settings.nesterov, "scale": settings.muon_scale}
        made["muon"] = Muon(options["muon"], dtype=DTYPES[settings.muon_dtype], **how)
    if "adamw" in options:
        on_gpu = all(weight.is_cuda for group in groups for weight in group.weights.values())
        fused = all(weight.device.type in FUSED for group in groups for weight in group.weights.values())
        made["adamw"] = torch.optim.AdamW(
            options["adamw"], lr=settings.rate, betas=settings.betas, eps=settings.eps, fused=fused, capturable=on_gpu
        )
    return Updater(made, settings.clip)
