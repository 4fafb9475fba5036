"""What a pickle of torch.save describes, without running it: dicts, lists, plain values and descriptions of tensors.

The machine knows the few instructions that weights need (see data/inert_pickle); here is what it makes of torch's
names. The numbers stay in the file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..data.inert_pickle import COMMON_VALUES, Machine, Name
from ..errors import quoted
from .mapped import is_whole_list

MAX_PICKLE_BYTES = 4 * 2**20  # a tensor's description takes some hundred

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


def kind(value: object) -> str:
    """What a value is, in a word for messages."""
    return "tensor" if isinstance(value, View) else type(value).__name__


def interpret(stream: Any, label: str) -> tuple[Any, dict[str, Storage]]:
    """The object of the next pickle in a binary stream, and the storages it mentions. Nothing in it is called."""
    machine = _TensorMachine(label)
    return machine.read(stream), machine.storages


def _tensor(storage: Any, offset: Any, shape: Any, stride: Any, *_: Any) -> View:
    numbers = ([offset], shape, stride)
    if not isinstance(storage, Storage) or not all(map(is_whole_list, numbers)) or len(shape) != len(stride):
        raise ValueError("it describes a tensor wrongly")
    return View(storage, offset, tuple(shape), tuple(stride))


def _parameter(data: Any, *_: Any) -> View:
    if not isinstance(data, View):
        raise ValueError("it holds a parameter that is not a tensor")
    return data


RECIPES: dict[str, Callable[..., Any]] = {
    "collections OrderedDict": lambda: {},
    "torch._utils _rebuild_tensor": _tensor,
    "torch._utils _rebuild_tensor_v2": _tensor,
    "torch._utils _rebuild_parameter": _parameter,
}


class _TensorMachine(Machine):
    things, thing, file = "weights", "tensor", "file that torch.save wrote"
    names = STORAGES
    recipes = RECIPES
    values = COMMON_VALUES | {"BINFLOAT"}
    largest = MAX_PICKLE_BYTES

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self.storages: dict[str, Storage] = {}

    def kind(self, value: object) -> str:
        return kind(value)

    def build(self, target: Any, state: Any) -> None:
        """torch keeps its modules' version numbers in the attributes of an OrderedDict: they are left aside."""
        if not isinstance(target, dict):
            raise ValueError("it sets attributes of something that is no dict")
        self.stack.append(target)

    def persistent(self, identity: Any) -> None:
        tag, name, key, device, count, *view = identity
        dtype = STORAGES.get(name.path) if isinstance(name, Name) else None
        texts = isinstance(key, str) and isinstance(device, str)
        if tag != "storage" or dtype is None or not texts or not is_whole_list([count]) or any(view):
            raise ValueError("it refers to data that is no plain storage")
        storage = Storage(dtype, key, count)
        if self.storages.setdefault(key, storage) != storage:
            raise ValueError(f"it describes storage {quoted(key)} in two ways")
        self.stack.append(storage)
