"""CIFAR's own pickles, read without running them: dicts of numpy arrays, bytes, texts, whole numbers and lists.

The reader knows the few instructions that such files use, compares the names they ask for with a list, and imports and
calls none of them. Python 2 wrote the official files, so their bytes come as texts of one byte a letter (latin-1).
"""

import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from ..errors import ClearheadError, quoted, shown

MAX_DEPTH = 100
MAX_STACK = 10_000  # picklers write lists in batches of a thousand
KINDS = ("b1", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")


def parse_array_pickle(raw: bytes, label: str) -> dict[str, Any]:
    """The dict that a pickle holds; its keys become texts. `label` names it in errors."""
    try:
        root = _Machine(label).run(raw)
    except ClearheadError:
        raise
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise ClearheadError(f"{label} is no pickle of plain arrays, or is damaged: {shown(error)}") from None
    if not isinstance(root, dict):
        raise ClearheadError(f"{label} holds a {type(root).__name__}, not a dict of arrays and lists")
    return {_text(key): value.value if isinstance(value, _Array) else value for key, value in root.items()}


def _text(key: str | bytes | int) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else str(key)


@dataclass(frozen=True)
class _Name:
    """Something that the pickle asks to import. It never is."""

    path: str


@dataclass
class _Kind:
    """A number's kind, as numpy describes it; the order of its bytes is told later."""

    code: str
    order: str = "|"


@dataclass
class _Array:
    """An array whose numbers are told later."""

    value: np.ndarray | None = None


class _Machine:
    """The stack, the marks and the memo of one pickle."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def run(self, raw: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(BytesIO(raw)):
            if opcode.name in _VALUES:
                self.stack.append(argument)
            elif opcode.name in _ACTIONS:
                _ACTIONS[opcode.name](self, argument)
            else:
                raise ValueError(f"it uses {opcode.name}, which arrays don't need; no code was run")
            if len(self.stack) > MAX_STACK or len(self.marked) > MAX_DEPTH:
                raise ValueError("it is nested more deeply than arrays need")
        (value,) = self.stack
        return value

    def mark(self) -> None:
        self.marked.append(self.stack)
        self.stack = []

    def since_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.marked.pop()
        return items

    def last(self, count: int) -> list[Any]:
        return [self.stack.pop() for _ in range(count)][::-1]

    def push_tuple(self, items: list[Any]) -> None:
        self.stack.append(tuple(items))

    def remember(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def name(self, path: str) -> None:
        if path not in _RECIPES and path != _NDARRAY.path:
            asked = quoted(path.replace(" ", "."))
            raise ClearheadError(f"{self.label} asks to run {asked}, which plain arrays never need; no code was run")
        self.stack.append(_Name(path))

    def name_from_stack(self, parts: list[Any]) -> None:
        self.name(" ".join(part if isinstance(part, str) else type(part).__name__ for part in parts))

    def reduce(self, name: Any, arguments: Any) -> None:
        recipe = _RECIPES.get(name.path) if isinstance(name, _Name) else None
        if recipe is None:
            raise ValueError("it calls something that is no array's description; no code was run")
        self.stack.append(recipe(*arguments))

    def build(self, target: Any, state: Any) -> None:
        if isinstance(target, _Kind):
            target.order = state[1]
        elif isinstance(target, _Array):
            target.value = _filled(*state)
        else:
            raise ValueError(f"it sets the state of a {type(target).__name__}")
        self.stack.append(target)

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise ValueError("it sets items of something that is no dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | bytes | int):  # hashing tuples of tuples of tuples could take for ever
                raise ValueError(f"it uses a {type(key).__name__} as a key")
            target[key] = value

    def extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise ValueError("it appends to something that is no list")
        self.stack[-1].extend(items)


def _kind(code: Any, *_: Any) -> _Kind:
    if code not in KINDS:
        raise ValueError(f"it holds an array of {quoted(code)}; known are {', '.join(KINDS)}")
    return _Kind(code)


def _array(base: Any, *_: Any) -> _Array:
    if base != _NDARRAY:
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


_NDARRAY = _Name("numpy ndarray")
_RECIPES: dict[str, Callable[..., Any]] = {
    "numpy.core.multiarray _reconstruct": _array,
    "numpy._core.multiarray _reconstruct": _array,
    "numpy dtype": _kind,
    "_codecs encode": _encoded,
}

# Instructions that push their argument as it stands.
_VALUES = {
    *("BININT", "BININT1", "BININT2", "LONG1", "BINSTRING", "SHORT_BINSTRING", "BINUNICODE", "SHORT_BINUNICODE"),
    *("BINBYTES", "SHORT_BINBYTES"),
}

_ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda m, _: None,
    "FRAME": lambda m, _: None,
    "STOP": lambda m, _: None,
    "NONE": lambda m, _: m.stack.append(None),
    "NEWTRUE": lambda m, _: m.stack.append(True),
    "NEWFALSE": lambda m, _: m.stack.append(False),
    "EMPTY_DICT": lambda m, _: m.stack.append({}),
    "EMPTY_LIST": lambda m, _: m.stack.append([]),
    "EMPTY_TUPLE": lambda m, _: m.stack.append(()),
    "MARK": lambda m, _: m.mark(),
    "TUPLE": lambda m, _: m.push_tuple(m.since_mark()),
    "TUPLE1": lambda m, _: m.push_tuple(m.last(1)),
    "TUPLE2": lambda m, _: m.push_tuple(m.last(2)),
    "TUPLE3": lambda m, _: m.push_tuple(m.last(3)),
    "SETITEM": lambda m, _: m.set_items(m.last(2)),
    "SETITEMS": lambda m, _: m.set_items(m.since_mark()),
    "APPEND": lambda m, _: m.extend(m.last(1)),
    "APPENDS": lambda m, _: m.extend(m.since_mark()),
    "BINPUT": lambda m, index: m.remember(index),
    "LONG_BINPUT": lambda m, index: m.remember(index),
    "MEMOIZE": lambda m, _: m.remember(len(m.memo)),
    "BINGET": lambda m, index: m.stack.append(m.memo[index]),
    "LONG_BINGET": lambda m, index: m.stack.append(m.memo[index]),
    "GLOBAL": lambda m, path: m.name(path),
    "STACK_GLOBAL": lambda m, _: m.name_from_stack(m.last(2)),
    "REDUCE": lambda m, _: m.reduce(*m.last(2)),
    "BUILD": lambda m, _: m.build(*m.last(2)),
}
