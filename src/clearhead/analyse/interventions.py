"""What if: heads off, attention sharper or flatter, positions dropped, an activation or a token exchanged.

Each function gives replacements for a Recorder: site -> what the pass goes on with. `together` joins several, `compare`
(in compare.py) runs a model with and without them. Layers, heads and places count from 0.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from ..errors import ClearheadError
from ..models import Model
from ..models.t5 import T5
from ..runs import tokenizer
from ..trace import Replacement, Trace
from .answers import checked_model
from .neighbours import word_pieces

Intervention = Mapping[str, Replacement]


def heads_off(
    model: nn.Module, heads: Sequence[int] | None = None, *, layer: int | None = None, kind: str | None = None
) -> Intervention:
    """Heads add nothing: their weighted values are zero. All heads, or those of all layers, unless named.

    kind  "encoder", "decoder" or "cross"; may be left out where the model has one kind of attention
    """
    layers, part, count = _where(checked_model(model), layer, kind)
    wanted = list(range(count) if heads is None else heads)
    for head in wanted:
        if type(head) is not int or not 0 <= head < count:
            raise ClearheadError(f"there is no head {head!r}: the layer has {count}, from 0")
    if not wanted:
        raise ClearheadError("no heads were given to switch off")
    return {f"{at}.{part}.output": partial(_zeroed, heads=wanted) for at in layers}


def _zeroed(value: Tensor, heads: list[int]) -> Tensor:
    return value.index_fill(1, torch.tensor(heads, device=value.device), 0.0)


def attention_temperature(
    model: nn.Module, temperature: float, *, layer: int | None = None, kind: str | None = None
) -> Intervention:
    """What goes into the softmax is divided by a temperature: below 1 heads look more sharply, above it more evenly."""
    model = checked_model(model)
    if not 0 < temperature < math.inf:
        raise ClearheadError(f"a temperature is a number above 0, not {temperature!r}")
    layers, part, _ = _where(model, layer, kind)
    last = "biased" if isinstance(model, T5) and part == "attention" else "scaled"
    return {f"{at}.{part}.{last}": lambda value: value / temperature for at in layers}


def no_positions(model: nn.Module) -> Intervention:
    """The model isn't told where tokens stand: no position rows are added; of a T5, no biases to its scores."""
    model = checked_model(model)
    if isinstance(model, T5):
        sites = [f"{kind}.blocks.{n}" for kind in ("encoder", "decoder") for n in range(len(_blocks(model, kind)))]
        return together(*map(_without_bias, sites))
    inputs = [name for name in ("input", "source", "target") if _has_positions(model, name)]
    if not inputs:
        raise ClearheadError("the model adds no position rows to its input: there are none to drop")
    return {f"{name}.positions": torch.zeros_like for name in inputs}


def _has_positions(model: Model, name: str) -> bool:
    return getattr(getattr(model, name, None), "positions", None) is not None


def _without_bias(block: str) -> Intervention:
    before: list[Tensor] = []

    def remember(value: Tensor) -> Tensor:
        before[:] = [value]
        return value

    return {f"{block}.attention.scaled": remember, f"{block}.attention.biased": lambda value: before.pop()}


def patch(trace: Trace, site: str, *, places: Sequence[int] | None = None, item: int = 0) -> Intervention:
    """A site's value is that of another pass: all of it, or the rows of these tokens."""
    try:
        other = trace[site]
    except KeyError as missing:
        raise ClearheadError(f"the other pass: {missing.args[0]}") from None
    if not site.endswith(".positions"):  # the one site that all inputs of a batch share
        if not 0 <= item < len(other):
            raise ClearheadError(f"the trace holds {len(other)} inputs: there is no number {item}")
        other = other[item : item + 1]
    rows = other.shape[-2] if other.ndim > 2 or site.endswith(".positions") else 0
    if places is not None and not (places and all(-rows <= place < rows for place in places)):
        raise ClearheadError(f"'{site}' of the other pass has {rows} rows of tokens: not all of {list(places)} exist")
    return {site: partial(_patched, other=other, places=places, site=site)}


def _patched(value: Tensor, other: Tensor, places: Sequence[int] | None, site: str) -> Tensor:
    other = other.to(value.device, value.dtype)
    if places is None:
        if other.shape not in (value.shape, (1, *value.shape[1:])):
            told = f"{tuple(other.shape)} there, {tuple(value.shape)} here"
            raise ClearheadError(f"'{site}' has another shape in the other pass ({told}): name the places to patch")
        return other.expand_as(value)
    rows = value.shape[-2]
    if other.shape[-1] != value.shape[-1] or not all(-rows <= place < rows for place in places):
        raise ClearheadError(f"'{site}' has {rows} rows of {value.shape[-1]} here: {list(places)} can't be patched in")
    value = value.clone()
    value[..., list(places), :] = other[..., list(places), :]
    return value


def edit_token(model: nn.Module, place: int, token: str | int, *, side: str = "source") -> Intervention:
    """Another token stands at a place of the text; `side` is "source" or "target" of an encoder-decoder."""
    model = checked_model(model)
    both = "target" in model.takes
    if model.takes == ("image",):
        raise ClearheadError("a ViT reads pictures: it has no tokens to edit")
    if side not in ("source", "target"):
        raise ClearheadError(f"the side is source or target, not {side!r}")
    number, name = _number(model, token, side), side if both else "input"
    table: Tensor = model.get_submodule(f"{name}.tokens").weight  # pyright: ignore[reportAssignmentType]
    if not 0 <= number < len(table):
        raise ClearheadError(f"tokens are numbered 0 to {len(table) - 1}: there is no {number}")
    return {f"{name}.ids": partial(_edited, place=place, number=number)}


def _number(model: Model, token: str | int, side: str) -> int:
    if isinstance(token, int):
        return token
    tok = tokenizer(model, side=side if "target" in model.takes else "source")
    pieces = word_pieces(tok, token)
    if len(pieces) != 1:
        raise ClearheadError(f"{token!r} is {len(pieces)} tokens, and one is exchanged for one: give one of them")
    return pieces[0]


def _edited(ids: Tensor, place: int, number: int) -> Tensor:
    if not -ids.shape[1] <= place < ids.shape[1]:
        raise ClearheadError(f"there is no place {place}: the input has {ids.shape[1]} tokens")
    ids = ids.clone()
    ids[:, place] = number
    return ids


def together(*interventions: Intervention) -> Intervention:
    """All of them in one pass; where several change the same site, one after the other: drop positions first."""
    joined: dict[str, Replacement] = {}
    for site, new in (pair for one in interventions for pair in one.items()):
        joined[site] = partial(_in_turn, changes=(joined[site], new)) if site in joined else new
    return joined


def _in_turn(value: Tensor, changes: Iterable[Replacement]) -> Tensor:
    for change in changes:
        value = change(value) if callable(change) else change
    return value


def _where(model: Model, layer: int | None, kind: str | None) -> tuple[list[str], str, int]:
    """The blocks' names, the part of them that attends, and its number of heads."""
    kinds = ["encoder", "decoder", "cross"] if "target" in model.takes else [_only_stack(model)]
    if kind is None and len(kinds) == 1:
        kind = kinds[0]
    if kind not in kinds:
        raise ClearheadError(f"say which attention is meant: {', '.join(kinds)}" + (f", not {kind!r}" if kind else ""))
    stack, part = ("decoder", "cross") if kind == "cross" else (kind, "attention")
    blocks = _blocks(model, stack)
    if layer is not None and (type(layer) is not int or not 0 <= layer < len(blocks)):
        raise ClearheadError(f"there is no layer {layer!r}: the {stack} has {len(blocks)}, from 0")
    chosen = range(len(blocks)) if layer is None else [layer]
    return [f"{stack}.blocks.{n}" for n in chosen], part, getattr(blocks[0], part).heads.count


def _only_stack(model: Model) -> str:
    return "decoder" if hasattr(model, "decoder") else "encoder"


def _blocks(model: Model, stack: str) -> nn.ModuleList:
    return getattr(model, stack).blocks
