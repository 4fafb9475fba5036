"""Freezing: which weights a run leaves as they are.

A glob names weights (`*.bias`) or the modules that they stand in (`encoder.blocks.0`, `input`): then all weights inside
are meant. `*` stands for anything, dots too: `encoder.blocks.1*` is also block 10.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from torch import nn

from ..errors import ClearheadError, near, quoted


def freeze(model: nn.Module, globs: Iterable[str]) -> list[str]:
    """Stop these weights from training; their names."""
    return _set(model, globs, trains=False)


def unfreeze(model: nn.Module, globs: Iterable[str]) -> list[str]:
    """Let these weights train; their names."""
    return _set(model, globs, trains=True)


def frozen(model: nn.Module) -> list[str]:
    """The names of the weights that don't train."""
    return [name for name, weight in model.named_parameters() if not weight.requires_grad]


def _set(model: nn.Module, globs: Iterable[str], *, trains: bool) -> list[str]:
    weights = dict(model.named_parameters())
    meant = matching({name: paths(name) for name in weights}, globs, "no weight or module")
    for name in meant:
        weights[name].requires_grad_(trains)
    return meant


def paths(name: str) -> list[str]:
    """A weight's own name and those of the modules around it."""
    steps = name.split(".")
    return [".".join(steps[:count]) for count in range(1, len(steps) + 1)]


def matching(names: dict[str, list[str]], globs: Iterable[str], nothing: str) -> list[str]:
    """The names of which some alias matches some glob. A glob that matches nothing is an error naming near ones."""
    found: dict[str, None] = {}
    for glob in globs:
        hits = [name for name, aliases in names.items() if any(fnmatchcase(alias, glob) for alias in aliases)]
        if not hits:
            known = dict.fromkeys(alias for aliases in names.values() for alias in aliases)
            raise ClearheadError(f"{nothing} is named {quoted(glob)}{near(glob, known)}")
        found.update(dict.fromkeys(hits))
    return [name for name in names if name in found]
