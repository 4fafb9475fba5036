"""What is done to a pass: the changes that were asked for, as replacements for its sites.

A token that is exchanged makes another input: its number changes before the pass, and the rows are named after it. All
else acts while the model runs (analyse/interventions). Positions are dropped before anything else is done to a site.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..analyse import Intervention, attention_temperature, edit_token, heads_off, no_positions, patch
from ..errors import ClearheadError, quoted
from ..models import Model
from ..trace import Recorder
from .acting import Acting
from .inputs import Ready
from .schema import Change, Inputs
from .shelf import Opened

MOST = 64
NEEDS: dict[str, tuple[str, ...]] = {
    "heads-off": (),
    "temperature": ("factor",),
    "no-positions": (),
    "patch": ("site", "other"),
    "tokens": ("place", "token"),
}
MAY_HAVE: dict[str, tuple[str, ...]] = {
    "heads-off": ("stack", "layer", "heads"),
    "temperature": ("stack", "layer"),
    "no-positions": (),
    "patch": ("place",),
    "tokens": ("stack",),
}

TEXTS = ("text", "second", "source", "target")  # what a trace's `about` calls them

Reading = Callable[[Inputs], Ready]


def changed(opened: Opened, given: Ready, changes: Sequence[Change], read: Reading) -> tuple[Ready, Acting]:
    """The input with its tokens exchanged, and what the pass goes on with at which sites.

    read  makes another input ready, for a patch
    """
    _check(changes)
    prepared = given
    for change in changes:
        if change.kind == "tokens":
            prepared = _with_token(opened, prepared, change)
    acting = Acting()
    dropped = [change for change in changes if change.kind == "no-positions"][:1]  # once is enough
    rest = [change for change in changes if change.kind not in ("tokens", "no-positions")]
    for change in (*dropped, *rest):
        acting.add(done(change), _intervention(opened.model, change, read))
    return replace(prepared, notes=(*prepared.notes, *map(in_words, changes))), acting


def in_words(change: Change) -> str:
    return f"changed: {done(change)}"


def done(change: Change) -> str:
    """What was done, for a person to read: layers and heads count from 1, as on the page; places from 0, as rows do."""
    where = _where(change)
    match change.kind:
        case "heads-off":
            which = "all heads" if change.heads is None else _heads(change.heads)
            return f"{which} off{where}"
        case "temperature":
            return f"what goes into the softmax divided by {change.factor:g}{where}"
        case "no-positions":
            return "the model is not told where tokens stand"
        case "patch":
            place = "" if change.place is None else f" at place {change.place}"
            return f"{quoted(change.site)}{place} is that of another input"
        case _:
            return f"token {change.token} stands at place {change.place}{where}"


def _heads(heads: list[int]) -> str:
    return f"head{'s' if len(heads) > 1 else ''} {', '.join(str(head + 1) for head in heads)}"


def _where(change: Change) -> str:
    parts = [part for part in (change.stack, None if change.layer is None else f"layer {change.layer + 1}") if part]
    return f" in {', '.join(parts)}" if parts else ""


def _check(changes: Sequence[Change]) -> None:
    """Each change has what it needs and nothing that it would take no notice of."""
    if len(changes) > MOST:
        raise ClearheadError(f"{len(changes)} changes are more than the {MOST} that one pass takes")
    for change in changes:
        said = {name for name, value in change.model_dump(exclude={"kind"}).items() if value is not None}
        missing = [name for name in NEEDS[change.kind] if name not in said]
        if missing:
            raise ClearheadError(f"a change of kind '{change.kind}' needs {' and '.join(missing)}")
        idle = sorted(said - {*NEEDS[change.kind], *MAY_HAVE[change.kind]})
        if idle:
            raise ClearheadError(f"a change of kind '{change.kind}' takes no {' and no '.join(idle)}")


def _intervention(model: Model, change: Change, read: Reading) -> Intervention:
    if change.kind == "no-positions":
        return no_positions(model)
    if change.kind == "heads-off":
        return heads_off(model, change.heads, layer=change.layer, kind=change.stack)
    if change.kind == "temperature":
        assert change.factor is not None
        return attention_temperature(model, change.factor, layer=change.layer, kind=change.stack)
    assert change.site is not None and change.other is not None
    if any(sign in change.site for sign in "*?["):
        raise ClearheadError(f"one site is patched at a time: {quoted(change.site)} names several")
    other = read(change.other)
    with torch.no_grad(), Recorder(model, change.site) as trace:
        model(*other.tensors, **other.options)
    return patch(trace, change.site, places=None if change.place is None else [change.place])


def _with_token(opened: Opened, given: Ready, change: Change) -> Ready:
    """The same row but for one token; what the row is called changes with it."""
    assert change.place is not None and change.token is not None
    if change.stack == "cross":
        raise ClearheadError("a token stands in the encoder's text or in the decoder's, not in cross-attention")
    both = "target" in opened.model.takes
    side = "target" if both and change.stack == "decoder" else "source"
    (exchange,) = edit_token(opened.model, change.place, change.token, side=side).values()
    number, axis = int(side == "target"), side if both else "tokens"
    row: Tensor = exchange(given.tensors[number])  # pyright: ignore[reportCallIssue]
    words = opened.words.of(*(given.about[name] for name in TEXTS if name in given.about))
    speller = words.target if side == "target" else words.source
    tokens, pieces = list(given.tokens[axis]), f"{axis}_tokens" if both else axis
    tokens[change.place] = speller.token(change.token)
    named = list(given.about[pieces])
    named[change.place] = speller.piece(change.token)
    tensors = tuple(row if place == number else tensor for place, tensor in enumerate(given.tensors))
    return replace(given, tensors=tensors, tokens=given.tokens | {axis: tokens}, about=given.about | {pieces: named})
