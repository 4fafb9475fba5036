"""Every model by name: list them, look one up, create one with random weights."""

import os
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from ..errors import ClearheadError, near
from . import bert, gpt, t5, transformer, vit
from .base import Config, Family, Model, Origin

FAMILIES: dict[str, Family] = {
    family.name: family for family in (transformer.FAMILY, gpt.FAMILY, bert.FAMILY, t5.FAMILY, vit.FAMILY)
}


@dataclass(frozen=True)
class Entry:
    """A line of the list: `params` is the true count; `paper` what a paper or deck says where that differs."""

    name: str
    family: str
    params: int
    paper: str | None


def names() -> list[str]:
    return [name for family in FAMILIES.values() for name in family.sizes]


def find(name: str) -> tuple[Family, Config]:
    """The family and config behind a name; an unknown one is an error that names the nearest."""
    for family in FAMILIES.values():
        if name in family.sizes:
            return family, family.sizes[name]
    raise ClearheadError(f"there is no model '{name}'{near(name, names())} (`clearhead models` lists them)")


def on_meta(family: Family, config: Config) -> Model:
    """The model without memory: shapes alone, even for 175 billion parameters."""
    with torch.device("meta"):
        return family.model(config).eval()


@cache
def list_models() -> tuple[Entry, ...]:
    """Every name with its true parameter count, counted on the meta device."""
    return tuple(
        Entry(name, family.name, on_meta(family, config).parameter_count, family.paper.get(name))
        for family in FAMILIES.values()
        for name, config in family.sizes.items()
    )


def create(
    name: str,
    *,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "float32",
    seed: int | None = None,
    **changes: Any,
) -> Model:
    """The named model with random weights, in eval mode. `changes` override fields of its config and are checked.

    Weights are filled once, on the CPU, so that a seed gives the same ones on every device.
    """
    family, config = find(name)
    if seed is not None and not 0 <= seed < 2**63:
        raise ClearheadError(f"a seed is a whole number from 0 to 2^63 - 1, not {seed}")
    model = on_meta(family, config.with_changes(**changes)).to(as_dtype(dtype))
    if torch.device(as_device(device)).type == "meta":
        return model
    refuse_if_too_large(name, model)
    model.to_empty(device="cpu")
    model.reset_buffers()
    model.initialise(None if seed is None else torch.Generator().manual_seed(seed))
    model.origin = Origin(name, seed=seed)
    return model.to(as_device(device), as_dtype(dtype)).eval()


def refuse_if_too_large(name: str, model: Model) -> None:
    need = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > have:
        raise ClearheadError(
            f"{name} needs {need / 1e9:,.1f} GB for its weights and this machine has {have / 1e9:,.1f} GB"
        )


def as_device(device: str | torch.device) -> torch.device:
    """`auto` is cuda, then mps, then cpu."""
    if device != "auto":
        try:
            found = torch.device(device)
        except RuntimeError:
            raise ClearheadError(f"there is no device '{device}': use auto, cpu, cuda, cuda:N or mps") from None
        there = {"cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available()), "cpu": 1, "meta": 1}
        if (found.index or 0) >= there.get(found.type, 0):
            raise ClearheadError(f"this machine has no device '{device}' that torch can use: use auto or cpu")
        return found
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def as_dtype(dtype: str | torch.dtype) -> torch.dtype:
    if isinstance(dtype, torch.dtype):
        return dtype
    types = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
    if dtype not in types:
        raise ClearheadError(f"there is no dtype '{dtype}'{near(dtype, types)}: use {', '.join(types)}")
    return types[dtype]
