"""Weights as other people left them on disk: a folder or a file becomes a read-only mapping from name to tensor.

Everything about a tensor but its numbers is known and checked when `open_weights` returns; the numbers are read when
asked for, from a memory map where the format allows it. Nothing in the files is trusted and nothing in them is run.
"""

import contextlib
import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO, Protocol

import torch
from torch import Tensor

from ..errors import ClearheadError, quoted, shown, some
from ..files import read_json
from .mapped import MappedFile
from .npz import read_npz
from .pickles import read_pickle
from .safetensors_header import DTYPES, METADATA, read_header

INDEX = ".index.json"
IN_A_FOLDER = ("model.safetensors", f"model.safetensors{INDEX}", "pytorch_model.bin", f"pytorch_model.bin{INDEX}")
PICKLES = (".bin", ".pt", ".pth")
SUFFIXES = (".safetensors", *PICKLES, ".npz")
MAX_NAME = 500

_CODES = {dtype: code for code, dtype in DTYPES.items()}
_RANKS = {code: rank for rank, code in enumerate(DTYPES)}  # the format's own order of widths


class Stored(Protocol):
    """A tensor that a file holds, described before it is read."""

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    def read(self) -> Tensor: ...


@dataclass(frozen=True)
class Weights(Mapping[str, Tensor]):
    """Tensors by name, read when asked for. `path` is the file or index opened, `notes` what the reader had to decide.

    A tensor may be a view of private, mapped memory: changing it never changes the file, but whoever asks the same
    Weights for the same name again sees the change.
    """

    path: Path
    stored: Mapping[str, Stored] = field(repr=False)
    sources: Mapping[str, Path] = field(repr=False)
    notes: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Tensor:
        return self.stored[name].read()

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    def __contains__(self, name: object) -> bool:
        return name in self.stored

    @property
    def names(self) -> list[str]:
        return list(self.stored)

    @property
    def nbytes(self) -> int:
        return sum(math.prod(tensor.shape) * tensor.dtype.itemsize for tensor in self.stored.values())

    def shape(self, name: str) -> tuple[int, ...]:
        return self.stored[name].shape

    def dtype(self, name: str) -> torch.dtype:
        return self.stored[name].dtype

    def source(self, name: str) -> Path:
        """The file that holds the tensor."""
        return self.sources[name]


def open_weights(path: str | os.PathLike[str]) -> Weights:
    """The weights of a folder in Hugging Face's layout, or of one .safetensors, .bin, .pt, .pth or .npz file."""
    path = Path(path)
    if not os.path.lexists(path):
        raise ClearheadError(f"{shown(path)} is missing")
    return _open_folder(path) if path.is_dir() else _open_file(path)


def _open_folder(folder: Path) -> Weights:
    found = [name for name in IN_A_FOLDER if os.path.lexists(folder / name)]
    if not found:
        raise ClearheadError(f"{shown(folder)} holds no weights: looked for {', '.join(IN_A_FOLDER)}")
    chosen = folder / found[0]
    weights = _open_shards(chosen) if chosen.name.endswith(INDEX) else _open_file(chosen)
    if found[1:]:
        weights.notes.append(f"{shown(folder)}: read {found[0]}, not {', '.join(found[1:])} beside it")
    return weights


def _open_file(path: Path) -> Weights:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ClearheadError(f"{shown(path)} is neither a folder nor a file that can be read ({', '.join(SUFFIXES)})")
    stored: Mapping[str, Stored]
    if suffix == ".npz":
        stored, notes = read_npz(path)
    elif suffix in PICKLES:
        stored, notes = read_pickle(MappedFile(path))
    else:
        stored, notes = read_header(MappedFile(path)), []
    for name in stored:
        if not name.isprintable() or len(name) > MAX_NAME:  # so that later messages can print any name as it stands
            raise ClearheadError(f"{shown(path)}: {quoted(name)} is no name for a tensor")
    return Weights(path, stored, dict.fromkeys(stored, path), notes)


def _open_shards(index: Path) -> Weights:
    """The shards that an index names. It must agree with them; what they hold beyond it is kept and said."""
    places = _weight_map(index)
    shards = {shard: index.parent / shard for shard in dict.fromkeys(places.values())}
    for shard, path in shards.items():
        if not path.is_file():
            raise ClearheadError(f"{shown(index)} names the shard {quoted(shard)}, which is missing; download it again")
    parts = {shard: _open_file(path) for shard, path in shards.items()}
    for name, shard in places.items():
        if name not in parts[shard]:
            raise ClearheadError(f"{shown(index)} places tensor {quoted(name)} in {quoted(shard)}, which lacks it")
    stored = {name: parts[shard].stored[name] for name, shard in places.items()}
    notes = [note for part in parts.values() for note in part.notes]
    for shard, part in parts.items():
        extra = [name for name in part if places.get(name) != shard]
        for name in extra:
            if name in stored:
                raise ClearheadError(
                    f"{shown(index)}: tensor {quoted(name)} is in {quoted(shard)} and in another shard"
                )
            places[name], stored[name] = shard, part.stored[name]
        if extra:
            notes.append(f"{shown(shards[shard])} holds {len(extra)} tensors that the index lacks: {some(extra)}")
    return Weights(index, stored, {name: shards[places[name]] for name in stored}, notes)


def _weight_map(index: Path) -> dict[str, str]:
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ClearheadError(f"{shown(index)} has no 'weight_map' from tensor to file")
    suffix = Path(index.name.removesuffix(INDEX)).suffix
    for name, shard in places.items():
        where = f"{shown(index)} places tensor {quoted(name)} in {quoted(shard)}"
        if not isinstance(shard, str) or not shard.endswith(suffix):
            raise ClearheadError(f"{where}, which is not the name of a {suffix} file")
        if _leaves_the_folder(shard):
            raise ClearheadError(f"{where}, which may lie outside the folder; only plain names inside it are opened")
    return places


def _leaves_the_folder(name: str) -> bool:
    """Whether a name could point elsewhere on any system. Links are not followed up: a hub cache is made of them."""
    return (
        "\\" in name
        or not name.isprintable()
        or PurePosixPath(name).is_absolute()
        or ".." in PurePosixPath(name).parts
        or PureWindowsPath(name).drive != ""
    )


def write_safetensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors to `path`: aside first, then renamed, so that the old file or the whole new one is there.

    Every tensor is written out whole, also where several share memory; one at a time is copied at most.
    """
    path = Path(path)
    header, order = _header(tensors, metadata or {})
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with partial.open("xb") as file:
            file.write(header)
            for name in order:
                _write_tensor(file, tensors[name])
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise ClearheadError(f"{shown(path)} could not be written: {shown(error.strerror)}") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def _header(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> tuple[bytes, list[str]]:
    """The file's first bytes and the order of its tensors: by width, so that all are aligned, then by name."""
    if METADATA in tensors or not all(isinstance(value, str) for value in metadata.values()):
        raise ClearheadError(f"safetensors keeps {METADATA} for a mapping of text to text")
    described = {name: _described(name, tensor) for name, tensor in tensors.items()}
    order = sorted(described, key=lambda name: (-_RANKS[described[name][0]], name))
    entries: dict[str, object] = {METADATA: dict(metadata)} if metadata else {}
    start = 0
    for name in order:
        code, shape = described[name]
        stop = start + math.prod(shape) * DTYPES[code].itemsize
        entries[name] = {"dtype": code, "shape": shape, "data_offsets": [start, stop]}
        start = stop
    raw = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw, order


def _described(name: str, tensor: Tensor) -> tuple[str, list[int]]:
    code = _CODES.get(tensor.dtype)
    if code is None or tensor.layout is not torch.strided or tensor.is_meta:
        raise ClearheadError(f"tensor {quoted(name)} ({tensor.dtype}, {tensor.device}) can't be written as safetensors")
    return code, list(tensor.shape)


def _write_tensor(file: BinaryIO, tensor: Tensor) -> None:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    file.write(flat.view(torch.uint8).numpy().data)


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself last through a power cut, where the system can (Windows can't)."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
