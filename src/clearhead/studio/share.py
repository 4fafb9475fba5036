"""A pass as one document that a page can carry: the table, the matrices, and what had to be left out.

The page finds it in <script type="application/json" id="clearhead-shared">:

    {"format": 1,
     "pass": Pass,                                       as GET /api/passes/{id} gives it, without the model's folder
     "matrices": {"KEY|HEAD": {"rows": r, "columns": c,  HEAD is 0 where a matrix is the same for all heads
                               "dtype": "float32" or "float16",
                               "data": base64 of gzip of r * c little-endian numbers, row by row}},
     "left_out": [{"key": KEY, "site": SITE, "heads": h, "rows": r, "columns": c, "why": WORDS}],
     "digits": "float32" or "float16",                   of everything but what is too large for 16 bits
     "notes": [WORDS],                                   what is not in this page, line by line: to be shown
     "picture": data URL or null}

A KEY that ends in `.T` is not written: it is the matrix without `.T`, turned round. Everything is in the document that
fits; what does not goes in this order:

1. weights, the largest first;
2. what is as wide as the vocabulary, the largest first: the best of it is among the pass's predictions;
3. digits: 16 bits in place of 32;
4. scores, scaled and masked scores, the last layer first;
5. all else in the blocks but who looks where, the last layer first;
6. who looks where (attention's weights), the last layer first;
7. what stands before and behind the blocks, the largest first.
"""

import base64
import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..errors import ClearheadError
from .passes import Kept, Matrices
from .schema import Matrix, Pass

FORMAT = 1
LARGEST_PAGE = 10 * 10**6
LARGEST_HALF = 65504.0
WORTH_TRYING = 24 * 2**20  # bytes of a matrix that may still become small: zeros and ones do
DENSE = 0.5  # weights never become smaller than this when they are packed
BLOCK = re.compile(r"\bblocks\.(\d+)\.")
ATTENTION = (".attention.weights", ".cross.weights")
SCORES = (".scores", ".scaled", ".masked", ".allowed", ".position_bias")
AROUND, LOOKS, INSIDE, BETWEEN, WIDE, WEIGHTS = range(6)  # what is kept longest comes first
NAMED = 3  # matrices that a note names; the page lists them all


@dataclass(frozen=True)
class Wanted:
    """A matrix of the table. `order`: what has a smaller one is kept longer."""

    key: str
    site: str
    kind: str
    heads: int
    rows: int
    columns: int
    order: tuple[int, ...]

    @property
    def cells(self) -> int:
        return self.heads * self.rows * self.columns


@dataclass
class Shared:
    """Matrices that are in, those that are not, and how many bytes they take as text."""

    digits: str
    matrices: dict[str, dict[str, Any]] = field(default_factory=dict)
    left_out: list[dict[str, Any]] = field(default_factory=list)
    bytes: int = 0


def document(kept: Kept, matrices: Matrices, room: int) -> dict[str, Any]:
    """All of a pass that fits into so many bytes of text."""
    said = kept.said
    picture = None if kept.png is None else f"data:image/png;base64,{base64.b64encode(kept.png).decode()}"
    told = json.loads(said.model_dump_json())
    told["model"]["folder"] = None  # where it lies on this machine is nobody else's
    plain = {"format": FORMAT, "pass": told, "picture": picture}
    room -= len(said.model_dump_json()) * 5 // 4 + len(picture or "")  # some letters are escaped
    wanted = sorted(wanted_of(said), key=lambda one: one.order)
    shared = _packed(wanted, matrices, room, "float32", stop=True) or _packed(wanted, matrices, room, "float16")
    assert shared is not None
    if not any(key.startswith("site:") for key in shared.matrices):
        raise ClearheadError("not one step of this pass fits into a page: shorten the input")
    return plain | {
        "matrices": shared.matrices,
        "left_out": shared.left_out,
        "digits": shared.digits,
        "notes": notes(said, shared),
    }


def wanted_of(said: Pass) -> list[Wanted]:
    """Every matrix that the table speaks of, once; what is turned round is the same as what is not."""
    found: dict[str, Wanted] = {}
    for matrix in (matrix for step in said.steps for matrix in (*step.operands, step.result)):
        turned = matrix.key.endswith(".T")
        key, (rows, columns) = matrix.key.removesuffix(".T"), (matrix.rows.size, matrix.columns.size)
        rows, columns = (columns, rows) if turned else (rows, columns)
        if key not in found:
            place = _order(matrix, key, rows * columns * matrix.heads, len(found))
            found[key] = Wanted(key, matrix.site, matrix.kind, matrix.heads, rows, columns, place)
    return [*found.values()]


def _order(matrix: Matrix, key: str, size: int, number: int) -> tuple[int, ...]:
    """See the order in which things go, above: it is this one, from the end."""
    block = BLOCK.search(key)
    if matrix.kind == "weight":
        return WEIGHTS, size, number
    if "vocabulary" in (matrix.rows.of, matrix.columns.of):
        return WIDE, size, number
    if block is None:
        return AROUND, size, number
    place = LOOKS if key.endswith(ATTENTION) else BETWEEN if key.endswith(SCORES) else INSIDE
    return place, int(block[1]), number


def _packed(wanted: Iterable[Wanted], matrices: Matrices, room: int, digits: str, stop: bool = False) -> Shared | None:
    """What fits, the most telling first. stop: None as soon as something does not that 16 bits may make fit."""
    shared = Shared(digits)
    for one in wanted:
        packed = _entries(one, matrices, room - shared.bytes, digits)
        if packed is not None:
            shared.matrices |= packed
            shared.bytes += _size(packed)
            continue
        why = _why(one, matrices)
        if stop and one.order[0] < WIDE and why == ROOM:
            return None
        shared.left_out.append(
            {"key": one.key, "site": one.site, "heads": one.heads, "rows": one.rows, "columns": one.columns, "why": why}
        )
    return shared


ROOM = "the page would be too large"
MEMORY = "it was left out of the trace to save memory"


def _why(one: Wanted, matrices: Matrices) -> str:
    try:
        matrices.get(one.key, 0, slice(0, 1), slice(0, 1))
    except ClearheadError:
        return MEMORY
    return ROOM


def _entries(one: Wanted, matrices: Matrices, room: int, digits: str) -> dict[str, dict[str, Any]] | None:
    """A matrix, head by head, or None where it does not fit."""
    raw = one.cells * (4 if digits == "float32" else 2)
    least = raw * DENSE if one.kind == "weight" else 0 if raw <= WORTH_TRYING else raw / 8
    if least > room:
        return None
    made: dict[str, dict[str, Any]] = {}
    try:
        for head in range(one.heads):
            made[f"{one.key}|{head}"] = _entry(matrices.get(one.key, head), digits)
            if _size(made) > room:
                return None
    except ClearheadError:  # the trace does not hold it
        return None
    return made


def _entry(values: Tensor, digits: str) -> dict[str, Any]:
    finite = values[torch.isfinite(values)]
    fits = not finite.numel() or finite.abs().max().item() <= LARGEST_HALF
    kind, of = ("float16", "<f2") if digits == "float16" and fits else ("float32", "<f4")
    raw = values.numpy().astype(of).tobytes()
    data = base64.b64encode(gzip.compress(raw, compresslevel=6, mtime=0)).decode()
    return {"rows": values.shape[0], "columns": values.shape[1], "dtype": kind, "data": data}


def _size(entries: dict[str, dict[str, Any]]) -> int:
    """Bytes as JSON: the data and some signs around it."""
    return sum(len(entry["data"]) + len(key) + 80 for key, entry in entries.items())


def notes(said: Pass, shared: Shared) -> list[str]:
    """What is not in the page, in words."""
    lines = []
    if shared.digits == "float16":
        lines.append("Numbers have 16 bits here, about three digits, so that the page stays below 10 MB.")
    for kind, what in (("weight", "Weights"), ("site", "Sites"), ("derived", "Derived matrices")):
        gone = [one["key"].partition(":")[2] for one in shared.left_out if one["key"].startswith(f"{kind}:")]
        if gone:
            more = f" and {len(gone) - NAMED} more" if len(gone) > NAMED else ""
            lines.append(f"{what} left out ({len(gone)}): {', '.join(gone[:NAMED])}{more}.")
    if any(one["why"] == ROOM for one in shared.left_out):
        lines.append("With them the page would have more than 10 MB; a step that needs one shows its result alone.")
    if any(one["why"] == MEMORY for one in shared.left_out):
        lines.append("Some were not recorded at all, to save memory.")
    return [*lines, *_of_pass(said)]


def _of_pass(said: Pass) -> Iterator[str]:
    if said.model.random:
        yield f"The weights of {said.model.name} are random: it has learnt nothing."
    if said.cut is not None:
        yield f"{said.cut[0].upper()}{said.cut[1:]}."
