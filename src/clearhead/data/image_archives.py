"""The files that picture sets come in, read into arrays: packed .npz, idx, MATLAB. What is damaged is one line."""

import gzip
import io
import lzma
import math
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..errors import ClearheadError, shown
from ..files import read_text
from .kinds import Pictures
from .text_files import Folder, data_root, facts, places

MAX_UNPACKED = 2**31  # bytes of one archive in memory; CIFAR needs 0.2 thousand million, MNIST 0.05
IDX_BYTES = 0x08  # idx's word for unsigned bytes, the only numbers that MNIST has

_BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, KeyError, MemoryError)

T = TypeVar("T")
R = TypeVar("R")


def place(name: str, files: Sequence[str], folder: Folder, wanted: str) -> Path:
    """The first of a set's tell-tale files that is in one of its folders; else an error that asks for `wanted`."""
    root = data_root(name, wanted, folder)
    candidates = (base / file for file in files for base in places(name, root))
    found = next((file for file in candidates if file.is_file()), None)
    if found is None:
        raise ClearheadError(f"{shown(root / wanted)} is missing: fetch {facts(name)['fetch']} and put it there")
    return found


def present(file: Path) -> Path:
    """The file or folder, which must lie beside others that are there."""
    if not file.exists():
        raise ClearheadError(f"{shown(file)} is missing, though files beside it are there: unpack the data set again")
    return file


def read_bytes(path: Path) -> bytes:
    """A whole file, if it is not too large."""
    try:
        size = path.stat().st_size
        if size > MAX_UNPACKED:
            raise ClearheadError(f"{shown(path)} has {size:,} bytes; more than {MAX_UNPACKED:,} are refused")
        return path.read_bytes()
    except OSError as error:
        raise ClearheadError(f"{shown(path)} can't be read: {error.strerror or error}") from None


def class_names(file: Path) -> tuple[str, ...]:
    """One class a line."""
    names = tuple(line.strip() for line in read_text(file).rstrip().split("\n"))
    if not all(names):
        raise ClearheadError(f"{shown(file)} should name one class a line, and has an empty one")
    return names


def in_threads(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """`work` for every item, in order, on all cores: Pillow lets go of the interpreter while it decodes."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(work, items))


def read_npz(path: Path, names: Sequence[str]) -> list[np.ndarray]:
    """These arrays of a .npz file. Pickled objects in it are never opened."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if sum(member.file_size for member in archive.zip.infolist()) > MAX_UNPACKED:
                raise ClearheadError(f"{shown(path)} would unpack to more than {MAX_UNPACKED:,} bytes, and is refused")
            return [archive[name] for name in names]
    except ClearheadError:
        raise
    except TypeError:  # numpy gives a bare array for a .npy under another name
        raise ClearheadError(f"{shown(path)} is a single array, not a .npz archive") from None
    except _BROKEN as error:
        raise ClearheadError(f"{shown(path)} is damaged, or not the file it should be: {shown(error)}") from None


def read_packed(path: Path) -> tuple[list[bytes], np.ndarray]:
    """The packed pictures of `blob`, cut at the borders in `offset`, and `label`."""
    blob, offset, label = read_npz(path, ("blob", "offset", "label"))
    whole = all(array.dtype.kind in "ui" and array.ndim == 1 for array in (blob, offset, label))
    if not whole or len(offset) < 2 or offset[0] != 0 or offset[-1] != len(blob) or (np.diff(offset) <= 0).any():
        raise ClearheadError(f"{shown(path)} is damaged: its borders don't fit its pictures")
    raw = blob.astype(np.uint8).tobytes()
    return [raw[a:b] for a, b in zip(offset[:-1].tolist(), offset[1:].tolist(), strict=True)], label


def decoded(raw: bytes, label: str) -> np.ndarray:
    """One packed picture as uint8 (height, width, 3)."""
    try:
        from PIL import Image
    except ImportError:
        raise ClearheadError("pictures need Pillow, which is not installed: pip install Pillow") from None
    try:
        with Image.open(io.BytesIO(raw), formats=("WEBP",)) as image:
            return np.asarray(image.convert("RGB"))
    except (*_BROKEN, SyntaxError) as error:
        raise ClearheadError(f"{label} holds a picture that can't be decoded: {shown(error)}") from None


def read_idx(path: Path) -> np.ndarray:
    """The array of bytes in an idx file, packed by gzip or not. No more is unpacked than its heading announces."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            start = file.read(4)
            if len(start) < 4 or start[:2] != b"\0\0" or start[2] != IDX_BYTES or start[3] not in (1, 2, 3):
                raise ClearheadError(f"{shown(path)} is no idx file of bytes")
            shape = tuple(np.frombuffer(file.read(4 * start[3]), ">u4").tolist())
            needed = math.prod(shape)
            if len(shape) != start[3] or needed > MAX_UNPACKED:
                raise ClearheadError(f"{shown(path)} announces {needed:,} bytes, which can't be right")
            content = file.read(needed + 1)
    except _BROKEN as error:
        if isinstance(error, ClearheadError):
            raise
        raise ClearheadError(f"{shown(path)} can't be read: {shown(error)}") from None
    if len(content) != needed:
        found = "more" if len(content) > needed else f"{len(content):,}"
        raise ClearheadError(f"{shown(path)} announces {needed:,} bytes and holds {found}: it is damaged")
    return np.frombuffer(content, np.uint8).reshape(shape)


def read_matlab(path: Path) -> dict[str, Any]:
    """The variables of a MATLAB file."""
    try:
        from scipy.io import loadmat
        from scipy.io.matlab import MatReadError
    except ImportError:
        raise ClearheadError(f"{shown(path)} needs scipy, which is not installed: pip install scipy") from None
    try:
        return loadmat(path, squeeze_me=True)
    except (MatReadError, NotImplementedError, TypeError, IndexError, *_BROKEN) as error:
        raise ClearheadError(f"{shown(path)} is damaged, or no MATLAB file: {shown(error)}") from None


def pictures(pixels: np.ndarray | Sequence[Path], labels: Any, classes: int, label: str) -> Pictures:
    """Pictures, one label each from 0 to `classes` - 1; anything else is refused."""
    numbers = np.asarray(labels)
    if len(pixels) == 0 or numbers.shape != (len(pixels),) or numbers.dtype.kind not in "ui":
        raise ClearheadError(f"{label}: {len(pixels):,} pictures with {numbers.size:,} labels don't fit together")
    if numbers.min() < 0 or numbers.max() >= classes:
        raise ClearheadError(
            f"{label}: labels from {numbers.min()} to {numbers.max()} where there are {classes} classes"
        )
    return Pictures(_owned(pixels) if isinstance(pixels, np.ndarray) else pixels, _owned(numbers).long())


def _owned(array: np.ndarray) -> Tensor:
    """A tensor that may be written to; arrays that view a file's bytes are copied."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))
