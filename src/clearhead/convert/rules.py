"""Name maps between our tensors and another library's, each rule readable in both directions.

A rule's `write` gives their tensors from ours, so on meta tensors it also says which shapes theirs must have:
a wrong file is refused before a byte of data is read.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ..errors import ClearheadError
from .tensors import Weights


@dataclass(frozen=True)
class Rule:
    """One of our tensors and the ones of theirs that it is made of. `{}` in a name stands for the layer's number."""

    ours: str
    theirs: tuple[str, ...]
    read: Callable[[list[Tensor]], Tensor]
    write: Callable[[Tensor], list[Tensor]]

    def at(self, layer: int) -> "Rule":
        name = str(layer)
        return Rule(
            self.ours.replace("{}", name), tuple(t.replace("{}", name) for t in self.theirs), self.read, self.write
        )


def same(ours: str, theirs: str) -> Rule:
    return Rule(ours, (theirs,), lambda parts: parts[0], lambda tensor: [tensor])


def transposed(ours: str, theirs: str) -> Rule:
    """A Linear (out, in) that the other library keeps as (in, out)."""
    return Rule(ours, (theirs,), lambda parts: parts[0].t().contiguous(), lambda tensor: [tensor.t()])


def stacked(ours: str, *theirs: str) -> Rule:
    """Several products of theirs that are one of ours, such as q, k, v: rows under one another, equally many each."""
    return Rule(ours, theirs, torch.cat, lambda tensor: list(tensor.chunk(len(theirs))))


def shaped(ours: str, theirs: str, ours_shape: tuple[int, ...], theirs_shape: tuple[int, ...]) -> Rule:
    """The same numbers in the same order, under another shape."""
    return Rule(
        ours, (theirs,), lambda parts: parts[0].reshape(ours_shape), lambda tensor: [tensor.reshape(theirs_shape)]
    )


def with_biases(make: Callable[..., Rule], ours: str, *theirs: str, bias: bool = True) -> list[Rule]:
    """The rules of a layer's weight and of its bias, names given without the ending."""
    weight = make(f"{ours}.weight", *(f"{name}.weight" for name in theirs))
    plain = same if make is transposed else make
    return [weight, *([plain(f"{ours}.bias", *(f"{name}.bias" for name in theirs))] if bias else [])]


def each_layer(rules: Iterable[Rule], layers: int) -> list[Rule]:
    rules = list(rules)
    return [rule.at(layer) for layer in range(layers) for rule in rules]


@dataclass(frozen=True)
class Dialect:
    """How another library's files name a family's tensors.

    prefixes    a name in the file may lack one of these in front
    renames     (regular expression, replacement): old spellings
    leftovers   regular expressions of tensors that hold no weights: dropped, and said
    copies      tensors that repeat another when weights are tied: dropped if equal, an error if not; the first there
                stands in for one that a file leaves out
    optional    prefixes of our names that a file may lack (a head): the caller then makes them new
    spare       rules of heads that this model lacks and a file may hold: read for the caller, never written
    """

    rules: list[Rule]
    prefixes: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()
    leftovers: tuple[str, ...] = ()
    copies: dict[str, str] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    spare: list[Rule] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        return {name for rule in (*self.rules, *self.spare) for name in rule.theirs}


def read_state(weights: Weights, dialect: Dialect, model: nn.Module) -> tuple[dict[str, Tensor], list[str]]:
    """Our state dict out of their file, and what there is to say about it. `model` may be on the meta device."""
    found, dropped = names_in(weights, dialect)
    wanted = dict(model.named_parameters())
    rules = [rule for rule in dialect.rules if not _may_lack(rule, dialect, found)]
    spare = [rule for rule in dialect.spare if all(name in found for name in rule.theirs)]
    _check_names(weights, [*rules, *spare], found, dialect)
    for rule in rules:
        _check_shapes(weights, rule, wanted[rule.ours], found)
    _check_types(weights, [found[name] for rule in (*rules, *spare) for name in rule.theirs])
    for copy, original in dialect.copies.items():
        if copy in found and not torch.equal(weights[found[copy]], weights[found[original]]):
            raise ClearheadError(
                f"'{copy}' should repeat '{original}' (the config ties them) but differs: untie them in the config"
            )
    state = {rule.ours: rule.read([weights[found[name]] for name in rule.theirs]) for rule in (*rules, *spare)}
    return state, [*weights.notes, *([_said(dropped)] if dropped else [])]


def _said(dropped: list[str]) -> str:
    more = f" and {len(dropped) - 1} more like it" if len(dropped) > 1 else ""
    return f"dropped what this model has no use for: {dropped[0]}{more}"


def write_state(model: nn.Module, dialect: Dialect) -> dict[str, Tensor]:
    """Their tensors out of our model."""
    parameters = dict(model.named_parameters())
    pairs = ((rule, rule.write(parameters[rule.ours].detach())) for rule in dialect.rules)
    return {name: tensor.contiguous() for rule, parts in pairs for name, tensor in zip(rule.theirs, parts, strict=True)}


def names_in(weights: Weights, dialect: Dialect) -> tuple[dict[str, str], list[str]]:
    """(their full name -> its spelling in the file, left-overs). Names that the dialect lacks stand for themselves."""
    expected = dialect.names | set(dialect.copies)
    found: dict[str, str] = {}
    dropped: list[str] = []
    for name in weights:
        if any(re.search(pattern, name) for pattern in dialect.leftovers):
            dropped.append(name)
            continue
        canonical = name
        for pattern, replacement in dialect.renames:
            canonical = re.sub(pattern, replacement, canonical)
        options = [canonical, *(prefix + canonical for prefix in dialect.prefixes)]
        canonical = next((option for option in options if option in expected), canonical)
        if canonical in found:
            raise ClearheadError(f"'{name}' and '{found[canonical]}' are the same tensor under two names")
        found[canonical] = name
    for copy, original in dialect.copies.items():
        if original not in found and copy in found:
            found[original] = found[copy]
    return found, dropped


def _may_lack(rule: Rule, dialect: Dialect, found: dict[str, str]) -> bool:
    return rule.ours.startswith(dialect.optional) and not any(name in found for name in rule.theirs)


def _check_names(weights: Weights, rules: list[Rule], found: dict[str, str], dialect: Dialect) -> None:
    expected = {name for rule in rules for name in rule.theirs}
    missing = sorted(expected - found.keys())
    extra = sorted(found[name] for name in found.keys() - expected - dialect.copies.keys())
    for kind, names in (("lacks", missing), ("has unknown", extra)):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise ClearheadError(f"{weights.path} {kind} {', '.join(names[:3])}{more}")


def _check_shapes(weights: Weights, rule: Rule, ours: Tensor, found: dict[str, str]) -> None:
    for name, like in zip(rule.theirs, rule.write(ours.detach().to("meta")), strict=True):
        shape = tuple(weights.shape(found[name]))
        if shape != tuple(like.shape):
            raise ClearheadError(
                f"{weights.path}: {found[name]} has shape {shape}, the config asks for {tuple(like.shape)}"
            )


def _check_types(weights: Weights, names: Iterable[str]) -> None:
    for name in names:
        if not weights.dtype(name).is_floating_point:
            raise ClearheadError(f"{weights.path}: {name} holds {weights.dtype(name)}, which is not a type of weights")
