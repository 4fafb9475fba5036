"""Arrays of a .npz file (Google's ViT weights come so), read without trusting what the archive says about itself.

A .npz is a zip of .npy members. Names inside are only names: nothing is extracted to disk, nothing is unpickled, and
each member's header must agree with its size before memory is asked for.
"""

import ast
import math
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ClearheadError, quoted, shown
from .mapped import checked_file, checked_shape

MAX_UNPACKED_RATIO = 16  # trained weights hardly compress; a zip bomb does so a thousandfold
SMALL = 2**20  # below this no ratio is asked: a few zeros may compress well
MAGIC = b"\x93NUMPY"
HEADER_WIDTHS = {b"\x01\x00": 2, b"\x02\x00": 4}  # by version: how many bytes say the header's length
MAX_HEADER_BYTES = 1024  # plain arrays need about 120
CHUNK = 2**20

DTYPES = {
    "b1": torch.bool,
    "u1": torch.uint8,
    "i1": torch.int8,
    "i2": torch.int16,
    "i4": torch.int32,
    "i8": torch.int64,
    "f2": torch.float16,
    "f4": torch.float32,
    "f8": torch.float64,
    "V2": torch.bfloat16,  # numpy has no name for bfloat16 and writes it as two raw bytes
}

# What zipfile raises on archives that are damaged, encrypted or packed in a way it doesn't know.
ZIP_FAULTS = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ValueError, OverflowError)


@dataclass(frozen=True)
class NpzArray:
    """One array of the archive: what it is, and where its numbers begin in its member."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    column_major: bool
    swapped: bool
    start: int
    member: zipfile.ZipInfo
    archive: zipfile.ZipFile
    where: str

    def read(self) -> Tensor:
        """The array as a contiguous tensor; the archive's checksum is verified on the way."""
        if 0 in self.shape:
            return torch.empty(self.shape, dtype=self.dtype)
        raw = np.empty(self.member.file_size - self.start, np.uint8)
        try:
            with self.archive.open(self.member) as stream:
                stream.read(self.start)
                _fill(stream, raw)
        except ZIP_FAULTS as error:
            raise ClearheadError(f"{self.where} can't be unpacked: {shown(error)}") from error
        if self.swapped:
            raw.view(f"u{self.dtype.itemsize}").byteswap(inplace=True)
        flat = torch.from_numpy(raw).view(self.dtype)
        if self.column_major:
            return flat.reshape(self.shape[::-1]).permute(*range(len(self.shape))[::-1]).contiguous()
        return flat.reshape(self.shape)


def read_npz(path: Path) -> tuple[dict[str, NpzArray], list[str]]:
    """Every array of the archive by name, and what the reader had to assume."""
    label = checked_file(path)
    try:
        archive = zipfile.ZipFile(path)
    except ZIP_FAULTS as error:
        raise ClearheadError(f"{label} is not a .npz archive or is damaged: {shown(error)}") from error
    _check_sizes(archive, path.stat().st_size, label)
    arrays: dict[str, NpzArray] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        if name in arrays:
            raise ClearheadError(f"{label} holds two arrays named {quoted(name)}")
        arrays[name] = _array(archive, member, f"{label}: array {quoted(name)}")
    raw = sum(array.dtype is torch.bfloat16 for array in arrays.values())
    return arrays, [f"{label}: {raw} arrays of two raw bytes a number were read as bfloat16"] if raw else []


def _check_sizes(archive: zipfile.ZipFile, size: int, label: str) -> None:
    for member in archive.infolist():
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ClearheadError(f"{label}: {quoted(member.filename)} is packed in a way that numpy does not write")
        if member.compress_size > size or (member.compress_type == 0 and member.file_size != member.compress_size):
            raise ClearheadError(f"{label}: {quoted(member.filename)} claims a size that the file can't hold")
    unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > SMALL + MAX_UNPACKED_RATIO * size:
        raise ClearheadError(
            f"{label} would unpack to {unpacked:,} bytes from {size:,}, which no trained weights do; "
            "if it is genuine, write it again with numpy.savez"
        )


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> NpzArray:
    try:
        with archive.open(member) as stream:
            header, start = _header(stream)
    except (*ZIP_FAULTS, SyntaxError, TypeError) as error:
        raise ClearheadError(f"{where} is not a plain .npy array: {shown(error)}") from error
    order, kind = header["descr"][:1], header["descr"][1:]
    if kind.startswith("O"):
        raise ClearheadError(f"{where} holds pickled Python objects, which are never opened; no code was run")
    if order not in "<>|" or kind not in DTYPES:
        raise ClearheadError(f"{where} has the dtype {quoted(header['descr'])}; known are {', '.join(DTYPES)}")
    dtype = DTYPES[kind]
    shape = checked_shape(header["shape"], dtype.itemsize, where)
    needed, present = math.prod(shape) * dtype.itemsize, member.file_size - start
    if needed != present:
        raise ClearheadError(f"{where} of shape {list(shape)} needs {needed:,} bytes, but {present:,} are there")
    return NpzArray(dtype, shape, header["fortran_order"], order == ">", start, member, archive, where)


def _header(stream: IO[bytes]) -> tuple[dict[str, Any], int]:
    """What a .npy member says of itself (a Python literal of three keys), and where its numbers begin."""
    magic = stream.read(len(MAGIC) + 2)
    width = HEADER_WIDTHS.get(magic[len(MAGIC) :])
    if not magic.startswith(MAGIC) or width is None:
        raise ValueError("its first bytes are not those of a .npy file of version 1 or 2")
    length = int.from_bytes(stream.read(width), "little")
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"its header has {length:,} bytes")
    header = ast.literal_eval(stream.read(length).decode("latin-1").strip())
    if not isinstance(header, dict) or header.keys() != {"descr", "fortran_order", "shape"}:
        raise ValueError("its header must hold descr, fortran_order and shape")
    if not isinstance(header["descr"], str) or not isinstance(header["fortran_order"], bool):
        raise ValueError("its header describes no plain numbers")
    return header, len(magic) + width + length


def _fill(stream: IO[bytes], target: np.ndarray) -> None:
    """Read exactly `target` from the stream, a chunk at a time. At its end zipfile checks the sum."""
    position = 0
    while position < len(target):
        chunk = stream.read(min(CHUNK, len(target) - position))
        if not chunk:
            raise EOFError(f"it ends after {position} bytes")
        target[position : position + len(chunk)] = np.frombuffer(chunk, np.uint8)
        position += len(chunk)
