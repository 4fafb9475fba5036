"""A model that does not fit one device: every process keeps a piece of each weight, and of all that goes with it.

This is PyTorch's FSDP2: a block's weights are gathered when it is computed, forgotten behind it, and gathered again on
the way back. Gradients, the optimiser's memory and the running average exist in pieces only.
"""

import copy
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from ..layers import CrossAttention
from ..layers.stack import Stack
from ..models.base import Model
from .average import EMA, Average
from .optimiser import Optimiser, Updater, build
from .ranks import Ranks
from .work import Work


class Shards:
    """Built from a model on the CPU, which each process has whole until its pieces are cut."""

    def __init__(self, work: Work, here: Ranks, compiled: bool) -> None:
        self.work, self.here = work, here
        self._whole = copy.deepcopy(work.model) if here.first else None  # on the CPU: what files are written from
        mesh = init_device_mesh(here.device.type, (here.world,))
        # keys and values are views, and nobody changes them in place
        warnings.filterwarnings("ignore", message=r"FSDP2-wrapped module \(FSDPCrossAttention\) returned a view")
        for block in _blocks(work.model):
            if compiled:
                block.compile(dynamic=False)
            for part in block.modules():
                if isinstance(part, CrossAttention):  # asked for keys and values before its block is computed
                    fully_shard(part, mesh=mesh)
                    register_fsdp_forward_method(part, "remember")
            fully_shard(block, mesh=mesh)
        # the root is the work, not the model: whatever a task calls of the model finds the weights gathered
        fully_shard(work, mesh=mesh, reshard_after_forward=True)
        register_fsdp_forward_method(work, "evaluate")
        self.compute: Any = work

    def updater(self, settings: Optimiser) -> Updater:
        return build(self.work.model, settings)

    def average(self, settings: Average) -> EMA:
        return ShardedEMA(self.work.model, settings)

    def gradients(self, last: bool) -> AbstractContextManager[Any]:
        """Reduced behind every batch: to hold them back would take the memory of all gradients, unsharded."""
        return nullcontext()

    @torch.no_grad()
    def whole(self) -> Model | None:
        """One weight at a time is gathered; it rests on the first process's CPU."""
        rests = dict(self._whole.named_parameters()) if self._whole is not None else {}
        for name, weight in _pieces(self.work.model).items():
            gathered = weight.full_tensor()
            if rests:
                rests[name].copy_(gathered)
        return self._whole

    @torch.no_grad()
    def fill(self, source: Model | None) -> None:
        given = dict(source.named_parameters()) if source is not None else {}
        for name, weight in _pieces(self.work.model).items():
            all_of_it = given[name].detach() if given else torch.empty(weight.shape, dtype=weight.dtype)
            cut = distribute_tensor(all_of_it.to(self.here.device), weight.device_mesh, weight.placements)
            weight.copy_(cut)


class ShardedEMA(EMA):
    """The running average, of this process's pieces alone; as a state it is sharded like the weights."""

    def __init__(self, model: nn.Module, settings: Average) -> None:
        super().__init__(Local(model), settings)
        self._like = _pieces(model)

    def blend(self, model: nn.Module) -> None:
        super().blend(Local(model))

    def swapped(self, model: nn.Module) -> AbstractContextManager[None]:
        return super().swapped(Local(model))

    def state_dict(self) -> dict[str, Any]:
        weights = {name: like(self._like[name], piece) for name, piece in self.weights.items()}
        return {"updates": self.updates, "weights": weights}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        weights = {name: weight.to_local() for name, weight in state["weights"].items()}
        super().load_state_dict({"updates": state["updates"], "weights": weights})


class Local(nn.Module):
    """A sharded model as plain tensors under the weights' names: this process's pieces, which share their memory."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._weights = _pieces(model)

    def named_parameters(self, *_: Any, **__: Any) -> Iterator[tuple[str, Any]]:
        for name, weight in self._weights.items():
            piece: Any = weight.detach()
            yield name, piece.to_local().requires_grad_(weight.requires_grad)


def like(weight: DTensor, piece: Tensor) -> DTensor:
    """A process's piece of something that is cut as `weight` is."""
    shape = {"shape": weight.shape, "stride": weight.stride()}
    return DTensor.from_local(piece, weight.device_mesh, weight.placements, run_check=False, **shape)


def _pieces(model: nn.Module) -> dict[str, DTensor]:
    return {name: weight for name, weight in model.named_parameters() if isinstance(weight, DTensor)}


def _blocks(model: nn.Module) -> list[nn.Module]:
    return [block for stack in model.modules() if isinstance(stack, Stack) for block in stack.blocks]
