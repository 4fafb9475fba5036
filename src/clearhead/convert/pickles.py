"""Files of torch.save, read without running them and without a second copy of their numbers.

torch.load(weights_only=True) refuses code too, but allocates whatever the file asks for and reads old files whole. Here
the pickle only yields descriptions (see tensor_pickle), which are checked against the file, and the numbers come from a
memory map. Both of torch's layouts are read: the zip archive (since 1.6) and the row of pickles before it.
"""

import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import torch
from torch import Tensor

from ..errors import ClearheadError, quoted, shown, some
from .mapped import MappedFile, checked_shape
from .npz import ZIP_FAULTS
from .tensor_pickle import View, interpret, kind

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL = 1001
WRAPPERS = ("state_dict", "model")


@dataclass(frozen=True)
class PickledTensor:
    """One tensor of the file: its description, and where its storage begins."""

    view: View
    start: int
    file: MappedFile

    @property
    def dtype(self) -> torch.dtype:
        return self.view.storage.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.view.shape

    def read(self) -> Tensor:
        storage = self.view.storage
        first = self.start + self.view.offset * storage.dtype.itemsize
        if 0 in self.shape or self.view.stride == _dense_stride(self.shape):
            return self.file.tensor(storage.dtype, self.shape, first)
        flat = self.file.tensor(storage.dtype, (storage.count,), self.start)
        return flat.as_strided(self.view.shape, self.view.stride, self.view.offset).contiguous()


def read_pickle(file: MappedFile) -> tuple[dict[str, PickledTensor], list[str]]:
    """Every tensor of a .bin, .pt or .pth file by name, and what the reader had to decide."""
    root, starts = _from_zip(file) if file.map[:4] == b"PK\x03\x04" else _from_row(file)
    state, notes = _state_dict(root, file.label)
    return {name: _located(name, view, starts, file) for name, view in state.items()}, notes


def _state_dict(root: Any, label: str) -> tuple[dict[Any, Any], list[str]]:
    notes: list[str] = []
    for wrapper in WRAPPERS:
        if isinstance(root, dict) and isinstance(root.get(wrapper), dict):
            aside = some([key for key in root if key != wrapper])
            notes.append(f"{label}: the weights are under '{wrapper}'" + (f"; left aside: {aside}" if aside else ""))
            root = root[wrapper]
            break
    if not isinstance(root, dict):
        raise ClearheadError(f"{label} holds a {kind(root)}, not a dict of tensors; save model.state_dict()")
    return root, notes


def _located(name: Any, view: Any, starts: Mapping[str, int], file: MappedFile) -> PickledTensor:
    if not isinstance(name, str):
        raise ClearheadError(f"{file.label}: the key {quoted(name)} is not a tensor's name; save model.state_dict()")
    if not isinstance(view, View):
        raise ClearheadError(f"{file.label}: {quoted(name)} is a {kind(view)}, not a tensor; save model.state_dict()")
    where = f"{file.label}: tensor {quoted(name)}"
    if view.storage.key not in starts:
        raise ClearheadError(f"{where} refers to data that the file does not hold; it is damaged")
    checked_shape(view.shape, view.storage.dtype.itemsize, where)
    # An expanded tensor would grow when it is made contiguous, so it must not be larger than its storage.
    reach = view.offset + sum((size - 1) * step for size, step in zip(view.shape, view.stride, strict=True)) + 1
    count = math.prod(view.shape)
    if count > view.storage.count or (count and reach > view.storage.count):
        raise ClearheadError(
            f"{where} of shape {list(view.shape)} reaches beyond the {view.storage.count:,} numbers stored"
        )
    return PickledTensor(view, starts[view.storage.key], file)


def _dense_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _from_zip(file: MappedFile) -> tuple[Any, dict[str, int]]:
    """The pickled object of a zip archive, and where each storage begins in the file."""
    try:
        with zipfile.ZipFile(file.path) as archive:
            members = {member.filename: member for member in archive.infolist()}
    except ZIP_FAULTS as error:
        raise ClearheadError(f"{file.label} is damaged or truncated: {shown(error)}") from error
    spans = {name: _stored_span(member, file) for name, member in members.items()}
    roots = [name.removesuffix("data.pkl") for name in spans if name.endswith("/data.pkl")]
    if len(roots) != 1:
        raise ClearheadError(f"{file.label} is a zip archive, but not one that torch.save wrote")
    root = roots[0]
    start, stop = spans.get(f"{root}byteorder", (0, 0))
    if file.map[start:stop] == b"big":
        raise ClearheadError(f"{file.label} was written on a big-endian machine, which is not supported")
    start, stop = spans[f"{root}data.pkl"]
    value, storages = interpret(BytesIO(file.map[start:stop]), file.label)
    starts = {}
    for storage in storages.values():
        start, stop = spans.get(f"{root}data/{storage.key}", (0, 0))
        if stop - start < storage.nbytes:
            raise ClearheadError(
                f"{file.label}: storage {quoted(storage.key)} has {stop - start:,} bytes, not {storage.nbytes:,}"
            )
        starts[storage.key] = start
    return value, starts


def _stored_span(member: zipfile.ZipInfo, file: MappedFile) -> tuple[int, int]:
    """First and last byte of a member's content. torch never compresses, so nothing is ever unpacked."""
    local = file.map[member.header_offset : member.header_offset + 30]
    start = member.header_offset + 30 + int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    stored = member.compress_type == zipfile.ZIP_STORED and local.startswith(b"PK\x03\x04")
    if not stored or member.header_offset < 0:
        raise ClearheadError(f"{file.label}: {quoted(member.filename)} is not stored the way torch.save does it")
    if start + member.file_size > file.size:
        raise ClearheadError(f"{file.label} is truncated: {quoted(member.filename)} ends beyond the file")
    return start, start + member.file_size


def _from_row(file: MappedFile) -> tuple[Any, dict[str, int]]:
    """The same for the older layout: pickles of magic, protocol, machine, object and storage keys, then the data."""
    file.map.seek(0)
    magic, _ = interpret(file.map, file.label)
    if magic != LEGACY_MAGIC:
        raise ClearheadError(f"{file.label} is not a file that torch.save wrote")
    (protocol, _), (machine, _) = interpret(file.map, file.label), interpret(file.map, file.label)
    if protocol != LEGACY_PROTOCOL or not isinstance(machine, dict) or machine.get("little_endian") is not True:
        raise ClearheadError(f"{file.label} was written by a torch or a machine that is not supported")
    value, storages = interpret(file.map, file.label)
    keys, _ = interpret(file.map, file.label)
    if not isinstance(keys, list) or not all(isinstance(key, str) and key in storages for key in keys):
        raise ClearheadError(f"{file.label} lists data that none of its tensors uses; it is damaged")
    starts, position = {}, file.map.tell()
    for key in keys:
        count = int.from_bytes(file.map[position : position + 8], "little")
        starts[key] = position + 8
        position += 8 + storages[key].nbytes
        if count != storages[key].count or position > file.size:
            raise ClearheadError(f"{file.label} is damaged or truncated at the data of storage {quoted(key)}")
    return value, starts
