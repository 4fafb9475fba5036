"""Recorded passes, kept for as long as there is room: one input through one model, by an id that a link can carry.

The id is a digest of model, input and changes. Traces are bounded in bytes, one by one and together; the ones not asked
for longest are dropped, and the pass that took their place says so. One pass is computed at a time, so two tabs neither
mix nor need twice the memory; reading what is kept waits for nothing.
"""

import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ..analyse import Intervention
from ..models import Model
from ..trace import Recorder, Trace
from .attention_kinds import attention_kinds, attention_sites
from .changes import changed
from .inputs import Ready, ready
from .pictures import Album
from .predictions import difference, predictions
from .refusals import Unknown
from .schema import Node, Pass, PassWanted, Step
from .shelf import Opened, Shelf, Stamp

KEPT_BYTES = 5 * 2**28  # GPT-2's 12 layers and 12 heads at 512 tokens take 1.02 GiB, and are kept whole
MOST_KEPT = 256  # small traces are bounded in number: their tables take room too
REMEMBERED = 4096  # ids of what was dropped
READERS = 4  # passes whose matrices are being looked at; they hold their models
THUMBNAIL = 32

Table = Callable[[Model, Trace], tuple[list[Node], list[Step]]]


class Matrices(Protocol):
    """Every matrix of a pass by its key: see steps/matrices.py."""

    def get(self, key: str, head: int = 0, rows: slice = ..., columns: slice = ...) -> Tensor: ...

    def range(self, key: str, head: int = 0) -> tuple[float, float] | None: ...

    def shape(self, key: str) -> tuple[int, int]: ...


@dataclass(frozen=True)
class Kept:
    """A pass, what it recorded, as which files its model was read, and the input as the model took it."""

    said: Pass
    trace: Trace
    stamp: Stamp
    ready: Ready

    @property
    def png(self) -> bytes | None:
        return self.ready.png


class Passes:
    def __init__(
        self,
        shelf: Shelf,
        album: Album,
        table: Table,
        matrices: Callable[[Model, Trace], Matrices],
        max_bytes: int = KEPT_BYTES,
    ) -> None:
        self.shelf, self.album, self.table, self.max_bytes = shelf, album, table, max_bytes
        self._matrices = matrices
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._dropped: OrderedDict[str, None] = OrderedDict()
        self._readers: OrderedDict[str, tuple[Kept, Matrices]] = OrderedDict()
        self.computing, self._lock = threading.Lock(), threading.RLock()

    def make(self, wanted: PassWanted) -> Pass:
        """The pass that was asked for; one that is kept is not computed again, unless its checkpoint has changed."""
        id = pass_id(wanted)
        with self.computing:
            opened = self.shelf.open(wanted.model)
            kept = self._found(id)
            if kept is not None and kept.stamp == opened.stamp:
                return kept.said.model_copy(update={"dropped": []})
            return self._keep(self._recorded(id, wanted, opened))

    def get(self, id: str) -> Kept:
        kept = self._found(id)
        if kept is not None:
            return kept
        if id in self._dropped:
            raise Unknown("this pass was forgotten to make room for later ones: run it again")
        raise Unknown("there is no such pass here: run it again")

    def opened(self, kept: Kept) -> Opened:
        """The model that a pass was recorded with."""
        opened = self.shelf.open(kept.said.model.id)
        if opened.stamp != kept.stamp:
            raise Unknown("the checkpoint has changed since this pass was recorded: run it again")
        return opened

    def matrices(self, id: str) -> Matrices:
        """What reads the matrices of a pass, with the weights that it was recorded with."""
        kept = self.get(id)
        with self._lock:
            there = self._readers.get(id)
        if there is None or there[0] is not kept:
            there = kept, self._matrices(self.opened(kept).model, kept.trace)
        with self._lock:
            self._readers[id] = there
            self._readers.move_to_end(id)
            while len(self._readers) > READERS:
                self._readers.popitem(last=False)
        return there[1]

    def thumbnails(self, id: str, kind: str) -> Tensor:
        """(layers, heads, rows, columns) of attention, averaged down to what a thumbnail shows; NaN where left out."""
        kept = self.get(id)
        said = next((one for one in kept.said.attention if one.kind == kind), None)
        if said is None:
            known = ", ".join(one.kind for one in kept.said.attention)
            raise Unknown(f"this pass has no attention of kind '{kind}': it has {known}")
        size = min(said.rows.size, THUMBNAIL), min(said.columns.size, THUMBNAIL)
        small = torch.full((said.layers, said.heads, *size), float("nan"))
        for layer, site in attention_sites(kept.trace)[kind].items():
            if site in kept.trace.values:
                small[layer] = F.adaptive_avg_pool2d(kept.trace[site][0].float(), size)
        return small

    def _recorded(self, id: str, wanted: PassWanted, opened: Opened) -> Kept:
        given = ready(opened, wanted.inputs, self.album)
        prepared, acting = changed(opened, given, wanted.changes, lambda other: ready(opened, other, self.album))
        changes, began = acting.replacements, time.perf_counter()
        trace = recorded(opened.model, prepared, self.max_bytes, changes)
        seconds = time.perf_counter() - began
        nodes, steps = self.table(opened.model, trace)
        said = Pass(
            id=id,
            model=opened.card,
            inputs=wanted.inputs,
            changes=wanted.changes,
            path="reference",
            equal_to_fused=difference(unchanged(opened.model, prepared, trace, changes), fast(opened.model, prepared)),
            tokens=prepared.tokens,
            picture=prepared.picture,
            nodes=nodes,
            steps=acting.marked(steps),
            predictions=predictions(opened, prepared, trace.output),
            attention=attention_kinds(opened.model, trace),
            cut=prepared.cut,
            left_out=list(trace.left_out),
            written=prepared.written,
            notes=list(prepared.notes),
            seconds=seconds,
        )
        trace.output = None  # the logits are a site of their own
        return Kept(said, trace, opened.stamp, prepared)

    def _keep(self, made: Kept) -> Pass:
        """Put it in, and take out the oldest until everything fits."""
        with self._lock:
            self._kept.pop(made.said.id, None)
            self._dropped.pop(made.said.id, None)
            self._kept[made.said.id] = made
            dropped = []
            while len(self._kept) > MOST_KEPT or self.nbytes > self.max_bytes:
                dropped.append(self._kept.popitem(last=False)[0])
                self._readers.pop(dropped[-1], None)
            self._dropped.update(dict.fromkeys(dropped))
            while len(self._dropped) > REMEMBERED:
                self._dropped.popitem(last=False)
        return made.said.model_copy(update={"dropped": dropped})

    @property
    def nbytes(self) -> int:
        return sum(kept.trace.nbytes for kept in self._kept.values())

    def _found(self, id: str) -> Kept | None:
        with self._lock:
            if id in self._kept:
                self._kept.move_to_end(id)
            return self._kept.get(id)


def pass_id(wanted: PassWanted) -> str:
    plain = json.dumps(wanted.model_dump(), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(plain.encode()).hexdigest()[:20]


def recorded(model: Model, prepared: Ready, max_bytes: int, changes: Intervention) -> Trace:
    """One pass on the reference path: what `record` does, with inputs that were made here."""
    with torch.no_grad(), Recorder(model, max_bytes=max_bytes, replace=changes) as trace:
        trace.output = model(*prepared.tensors, **prepared.options)
    origin = model.origin
    weights: dict[str, Any] = {"folder": origin.folder} if origin.folder else {"random": True, "seed": origin.seed}
    trace.about = {"model": origin.name, "family": model.family, "path": "reference", **weights, **prepared.about}
    return trace


def unchanged(model: Model, prepared: Ready, trace: Trace, changes: Intervention) -> Any:
    """What the reference path says without the changes: only so can the two paths be compared."""
    if not changes:
        return trace.output
    with torch.no_grad(), Recorder(model, ()):
        return model(*prepared.tensors, **prepared.options)


def fast(model: Model, prepared: Ready) -> Any:
    """What the model says on the path that it takes when nobody looks."""
    with torch.no_grad():
        return model(*prepared.tensors, **prepared.options)
