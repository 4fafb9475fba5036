"""A weights file as private memory: pages are read when first touched, and nothing written to them reaches the file."""

import math
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeGuard

import torch
from torch import Tensor

from ..errors import ClearheadError, shown

MAX_DIMENSIONS = 64  # torch's own limit for arithmetic


def checked_file(path: Path) -> str:
    """The name of an existing regular file, fit for messages. Asked before opening: a pipe would wait for ever."""
    if not path.is_file():
        state = "is a broken link or not a regular file" if os.path.lexists(path) else "is missing"
        raise ClearheadError(f"{shown(path)} {state}")
    return shown(path)


class MappedFile:
    """One regular file in the address space. Tensors taken from it are views that keep it alive."""

    def __init__(self, path: Path) -> None:
        self.path, self.label = path, checked_file(path)
        try:
            with path.open("rb") as file:
                self.size = os.fstat(file.fileno()).st_size
                if self.size == 0:
                    raise ClearheadError(f"{self.label} is empty; download it again")
                self.map = mmap.mmap(file.fileno(), self.size, access=mmap.ACCESS_COPY)
        except OSError as error:
            raise ClearheadError(f"{self.label} can't be read: {shown(error.strerror)}") from error

    def tensor(self, dtype: torch.dtype, shape: tuple[int, ...], start: int) -> Tensor:
        """The tensor whose bytes begin at `start`: a view of the map, or a copy where the bytes aren't aligned."""
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes == 0:
            return torch.empty(shape, dtype=dtype)
        self._read_ahead(start, nbytes)
        flat = torch.frombuffer(self.map, dtype=torch.uint8, count=nbytes, offset=start)
        if start % dtype.itemsize:
            flat = flat.clone()
            self._give_back(start, nbytes)
        return flat.view(dtype).reshape(shape)

    def _read_ahead(self, start: int, nbytes: int) -> None:
        """Let the kernel fetch ahead: a file that is not in its cache is read twice as fast as page by page."""
        if hasattr(mmap, "MADV_WILLNEED"):
            page = start - start % mmap.PAGESIZE
            self.map.madvise(mmap.MADV_WILLNEED, page, start + nbytes - page)

    def _give_back(self, start: int, nbytes: int) -> None:
        """Drop the pages that hold nothing but a tensor that was copied, so that it isn't in memory twice."""
        first, last = -(-start // mmap.PAGESIZE), (start + nbytes) // mmap.PAGESIZE
        if hasattr(mmap, "MADV_DONTNEED") and first < last:
            self.map.madvise(mmap.MADV_DONTNEED, first * mmap.PAGESIZE, (last - first) * mmap.PAGESIZE)


def checked_shape(shape: object, itemsize: int, where: str) -> tuple[int, ...]:
    """`shape` as a tuple that torch can hold; `where` names the tensor in the error."""
    if not is_whole_list(shape):
        raise ClearheadError(f"{where} has a shape that is not a list of whole numbers: {shown(shape, 80)}")
    # Zeros count as one, so that [0, huge, huge] can't overflow torch's own product.
    if len(shape) > MAX_DIMENSIONS or math.prod(max(size, 1) for size in shape) * itemsize >= 2**63:
        raise ClearheadError(f"{where} has an impossible shape: {shown(list(shape), 80)}")
    return tuple(shape)


def is_whole_list(value: object) -> TypeGuard[Sequence[int]]:
    """Whether `value` is a list or tuple of numbers that can be sizes or offsets; True and 2.0 can't."""
    return isinstance(value, list | tuple) and all(type(size) is int and 0 <= size < 2**63 for size in value)
