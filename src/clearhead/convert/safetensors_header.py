"""The header of a safetensors file, checked down to the last byte before any tensor is touched.

A file is: the header's length (8 bytes, little endian), the header (a JSON object from tensor name to dtype, shape and
offsets), then the data. The offsets must tile the data without gap or overlap, as the format demands.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import ClearheadError, quoted, shown
from ..files import MAX_JSON_BYTES, parse_object
from .mapped import MappedFile, checked_shape, is_whole_list

METADATA = "__metadata__"
DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3": torch.float8_e4m3fn,
    "I16": torch.int16,
    "U16": torch.uint16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I32": torch.int32,
    "U32": torch.uint32,
    "F32": torch.float32,
    "F64": torch.float64,
    "I64": torch.int64,
    "U64": torch.uint64,
}


@dataclass(frozen=True)
class SafeTensor:
    """One tensor of a safetensors file: what it is and which bytes of the file it takes."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    stop: int
    file: MappedFile

    def read(self) -> torch.Tensor:
        return self.file.tensor(self.dtype, self.shape, self.start)


def read_header(file: MappedFile) -> dict[str, SafeTensor]:
    """Every tensor that the file holds, in the header's order."""
    header, data_start = _parse(file)
    _check_metadata(header.pop(METADATA, {}), file.label)
    tensors = {name: _tensor(name, info, data_start, file) for name, info in header.items()}
    _check_tiling(tensors, data_start, file)
    return tensors


def _parse(file: MappedFile) -> tuple[dict[str, Any], int]:
    if file.size < 8:
        raise ClearheadError(f"{file.label} has {file.size} bytes, too few for a safetensors file; download it again")
    length = int.from_bytes(file.map[:8], "little")
    if length > file.size - 8:
        raise ClearheadError(
            f"{file.label} is truncated or not safetensors: {file.size:,} bytes, with {length:,} of header announced"
        )
    if length > MAX_JSON_BYTES:
        raise ClearheadError(f"{file.label} has a header of {length:,} bytes; more than {MAX_JSON_BYTES:,} is refused")
    raw = file.map[8 : 8 + length]
    if not raw.startswith(b"{"):
        raise ClearheadError(f"{file.label} is not a safetensors file: its header is not a JSON object")
    return parse_object(raw, f"the header of {file.label}"), 8 + length


def _check_metadata(metadata: object, label: str) -> None:
    if not isinstance(metadata, Mapping) or not all(isinstance(value, str) for value in metadata.values()):
        raise ClearheadError(f"{label}: its {METADATA} must map names to text")


def _tensor(name: str, info: Any, data_start: int, file: MappedFile) -> SafeTensor:
    where = f"{file.label}: tensor {quoted(name)}"
    if not isinstance(info, Mapping) or not {"dtype", "shape", "data_offsets"} <= info.keys():
        raise ClearheadError(f"{where} must be described by dtype, shape and data_offsets")
    dtype = DTYPES.get(info["dtype"]) if isinstance(info["dtype"], str) else None
    if dtype is None:
        raise ClearheadError(f"{where} has the unknown dtype {quoted(info['dtype'])}; known are {', '.join(DTYPES)}")
    shape = checked_shape(info["shape"], dtype.itemsize, where)
    offsets = info["data_offsets"]
    if not is_whole_list(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ClearheadError(f"{where} has offsets that are not [start, stop]: {shown(offsets, 80)}")
    start, stop = offsets
    if stop > file.size - data_start:
        raise ClearheadError(
            f"{where} ends at byte {stop:,} of the data but the file holds {file.size - data_start:,}; it is truncated"
        )
    needed = math.prod(shape) * dtype.itemsize
    if stop - start != needed:
        raise ClearheadError(
            f"{where} has {stop - start:,} bytes, but {info['dtype']} of shape {list(shape)} needs {needed:,}"
        )
    return SafeTensor(dtype, shape, data_start + start, data_start + stop, file)


def _check_tiling(tensors: Mapping[str, SafeTensor], data_start: int, file: MappedFile) -> None:
    position = data_start
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].stop)):
        if tensor.start != position:
            fault = "overlaps the tensor before it" if tensor.start < position else "leaves a gap before it"
            raise ClearheadError(f"{file.label}: tensor {quoted(name)} {fault}; the file is damaged")
        position = tensor.stop
    if position != file.size:
        raise ClearheadError(f"{file.label} has {file.size - position:,} bytes that belong to no tensor; it is damaged")
