"""A pickle reader that can't run anything: it knows the few instructions that weights need, and calls nothing.

Names that a pickle asks to import are compared with a list and never imported. Out come dicts, lists, plain values and
descriptions of tensors; the numbers stay in the file.
"""

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import ClearheadError, quoted, shown
from .mapped import is_whole_list

MAX_PICKLE_BYTES = 4 * 2**20  # a tensor's description takes some hundred
MAX_DEPTH = 100
MAX_STACK = 10_000  # picklers write dicts and lists in batches of a thousand

STORAGES = {
    "torch BoolStorage": torch.bool,
    "torch ByteStorage": torch.uint8,
    "torch CharStorage": torch.int8,
    "torch ShortStorage": torch.int16,
    "torch IntStorage": torch.int32,
    "torch LongStorage": torch.int64,
    "torch HalfStorage": torch.float16,
    "torch BFloat16Storage": torch.bfloat16,
    "torch FloatStorage": torch.float32,
    "torch DoubleStorage": torch.float64,
}


@dataclass(frozen=True)
class Storage:
    """A run of numbers that tensors are cut from; `key` says where the file keeps it."""

    dtype: torch.dtype
    key: str
    count: int

    @property
    def nbytes(self) -> int:
        return self.count * self.dtype.itemsize


@dataclass(frozen=True)
class View:
    """A tensor as the pickle describes it: a strided view of a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass(frozen=True)
class Name:
    """Something that the pickle asks to import. It never is."""

    path: str


def kind(value: object) -> str:
    """What a value is, in a word for messages."""
    return "tensor" if isinstance(value, View) else type(value).__name__


def interpret(stream: Any, label: str) -> tuple[Any, dict[str, Storage]]:
    """The object of the next pickle in a binary stream, and the storages it mentions. Nothing in it is called."""
    machine = _Machine(label)
    try:
        return machine.run(stream), machine.storages
    except ClearheadError:
        raise
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise ClearheadError(f"{label} is not a file that torch.save wrote, or is damaged: {shown(error)}") from None


class _Machine:
    """The stack, the marks and the memo of one pickle."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.storages: dict[str, Storage] = {}

    def run(self, stream: Any) -> Any:
        begin = stream.tell()
        for opcode, argument, position in pickletools.genops(stream):
            if opcode.name in _VALUES:
                self.stack.append(argument)
            elif opcode.name in _ACTIONS:
                _ACTIONS[opcode.name](self, argument)
            else:
                raise ValueError(f"it uses {opcode.name}, which weights don't need; no code was run")
            if len(self.stack) > MAX_STACK or len(self.marked) > MAX_DEPTH or position - begin > MAX_PICKLE_BYTES:
                raise ValueError("it describes more than weights need")
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
        if path not in STORAGES and path not in _RECIPES:
            asked = quoted(path.replace(" ", "."))
            raise ClearheadError(f"{self.label} asks to run {asked}, which plain weights never need; no code was run")
        self.stack.append(Name(path))

    def name_from_stack(self, parts: list[Any]) -> None:
        self.name(" ".join(part if isinstance(part, str) else kind(part) for part in parts))

    def reduce(self, name: Any, arguments: Any) -> None:
        recipe = _RECIPES.get(name.path) if isinstance(name, Name) else None
        if recipe is None:
            raise ValueError("it calls something that is not a tensor's description; no code was run")
        self.stack.append(recipe(*arguments))

    def build(self) -> None:
        self.stack.pop()  # torch keeps its modules' version numbers in the attributes of an OrderedDict
        if not isinstance(self.stack[-1], dict):
            raise ValueError("it sets attributes of something that is not a dict")

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise ValueError("it sets items of something that is not a dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | int):  # hashing tuples of tuples of tuples could take for ever
                raise ValueError(f"it uses a {kind(key)} as a key")
            target[key] = value

    def extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise ValueError("it appends to something that is not a list")
        self.stack[-1].extend(items)

    def storage(self, identity: Any) -> None:
        tag, name, key, device, count, *view = identity
        dtype = STORAGES.get(name.path) if isinstance(name, Name) else None
        texts = isinstance(key, str) and isinstance(device, str)
        if tag != "storage" or dtype is None or not texts or not is_whole_list([count]) or any(view):
            raise ValueError("it refers to data that is not a plain storage")
        storage = Storage(dtype, key, count)
        if self.storages.setdefault(key, storage) != storage:
            raise ValueError(f"it describes storage {quoted(key)} in two ways")
        self.stack.append(storage)


def _tensor(storage: Any, offset: Any, shape: Any, stride: Any, *_: Any) -> View:
    numbers = ([offset], shape, stride)
    if not isinstance(storage, Storage) or not all(map(is_whole_list, numbers)) or len(shape) != len(stride):
        raise ValueError("it describes a tensor wrongly")
    return View(storage, offset, tuple(shape), tuple(stride))


def _parameter(data: Any, *_: Any) -> View:
    if not isinstance(data, View):
        raise ValueError("it holds a parameter that is not a tensor")
    return data


_RECIPES: dict[str, Callable[..., Any]] = {
    "collections OrderedDict": lambda: {},
    "torch._utils _rebuild_tensor": _tensor,
    "torch._utils _rebuild_tensor_v2": _tensor,
    "torch._utils _rebuild_parameter": _parameter,
}

# Instructions that push their argument as it stands.
_VALUES = {
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES"),
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
    "BINPERSID": lambda m, _: m.storage(*m.last(1)),
    "BUILD": lambda m, _: m.build(),
}
