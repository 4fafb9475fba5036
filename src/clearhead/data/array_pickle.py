"""CIFAR's own pickles, read without running them: dicts of numpy arrays, bytes, texts, whole numbers and lists.

The machine knows the few instructions that such files use (see inert_pickle); here is what it makes of numpy's names.
Python 2 wrote the official files, so their bytes come as texts of one byte a letter (latin-1).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from ..errors import ClearheadError, quoted
from .inert_pickle import COMMON_VALUES, Machine, Name

KINDS = ("b1", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")
NDARRAY = "numpy ndarray"


def parse_array_pickle(raw: bytes, label: str) -> dict[str, Any]:
    """The dict that a pickle holds; its keys become texts. `label` names it in errors."""
    root = _ArrayMachine(label).read(BytesIO(raw))
    if not isinstance(root, dict):
        raise ClearheadError(f"{label} holds a {type(root).__name__}, not a dict of arrays and lists")
    return {_text(key): value.value if isinstance(value, _Array) else value for key, value in root.items()}


def _text(key: str | bytes | int) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else str(key)


@dataclass
class _Kind:
    """A number's kind, as numpy describes it; the order of its bytes is told later."""

    code: str
    order: str = "|"


@dataclass
class _Array:
    """An array whose numbers are told later."""

    value: np.ndarray | None = None


def _kind(code: Any, *_: Any) -> _Kind:
    if code not in KINDS:
        raise ValueError(f"it holds an array of {quoted(code)}; known are {', '.join(KINDS)}")
    return _Kind(code)


def _array(base: Any, *_: Any) -> _Array:
    if base != Name(NDARRAY):
        raise ValueError("it describes an array that is no plain ndarray")
    return _Array()


def _filled(_: Any, shape: Any, kind: Any, column_major: Any, raw: Any) -> np.ndarray:
    """The array itself: nothing is allocated before the shape is found to agree with the bytes that are there."""
    raw = raw.encode("latin-1") if isinstance(raw, str) else raw
    sizes = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
    if not sizes or not isinstance(kind, _Kind) or kind.order not in ("<", ">", "|") or not isinstance(raw, bytes):
        raise ValueError("it describes an array wrongly")
    dtype = np.dtype(kind.order + kind.code)
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise ValueError(f"an array of shape {list(shape)[:8]} can't be made of {len(raw):,} bytes")
    return np.frombuffer(raw, dtype).reshape(shape, order="F" if column_major else "C")


def _encoded(text: Any, codec: Any) -> bytes:
    """How Python 3 writes bytes in old pickles."""
    if not isinstance(text, str) or codec not in ("latin1", "latin-1"):
        raise ValueError("it encodes something that is no latin-1 text")
    return text.encode("latin-1")


RECIPES: dict[str, Callable[..., Any]] = {
    "numpy.core.multiarray _reconstruct": _array,
    "numpy._core.multiarray _reconstruct": _array,
    "numpy dtype": _kind,
    "_codecs encode": _encoded,
}


class _ArrayMachine(Machine):
    things, thing, file = "arrays", "array", "pickle of plain arrays"
    names = (NDARRAY,)
    recipes = RECIPES
    values = COMMON_VALUES | {"BINSTRING"}
    keys = (str, bytes, int)

    def build(self, target: Any, state: Any) -> None:
        if isinstance(target, _Kind):
            target.order = state[1]
        elif isinstance(target, _Array):
            target.value = _filled(*state)
        else:
            raise ValueError(f"it sets the state of a {type(target).__name__}")
        self.stack.append(target)
