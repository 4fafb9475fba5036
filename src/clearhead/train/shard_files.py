"""Tensors in pieces on disk, through torch.distributed.checkpoint: any number of processes reads what another wrote.

    rank-00000.safetensors   the pieces that the process with this number wrote: `name@row,column` where a piece begins
    pieces.json              every tensor's type and shape, and which file holds which of its pieces

That engine's own files are pickles; these two kinds are written and read in their place, so there is nothing in a state
that could run. What is no tensor has no place in them.
"""

# pyright: reportPrivateImportUsage=false

import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed import checkpoint
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, SavePlan, SavePlanner
from torch.distributed.tensor import DTensor
from torch.futures import Future

from ..convert import Weights, open_weights, write_safetensors
from ..convert.safetensors_header import DTYPES
from ..errors import ClearheadError, quoted, shown
from ..files import read_json
from .ranks import Ranks

INDEX = "pieces.json"
FILE = re.compile(r"rank-\d{5}\.safetensors")
TYPES = {str(kind).removeprefix("torch."): kind for kind in DTYPES.values()}


@dataclass(frozen=True)
class Piece:
    """Part of a tensor: where it begins, how large it is, and the file that holds it under which name."""

    at: tuple[int, ...]
    shape: tuple[int, ...]
    file: str
    name: str


@dataclass(frozen=True)
class Shelf:
    """What a folder holds, looked through before any number is read."""

    tensors: Mapping[str, tuple[torch.dtype, tuple[int, ...], list[Piece]]]
    files: Mapping[str, Weights]


def write_shards(folder: Path, tensors: Mapping[str, Tensor], here: Ranks) -> None:
    """Every process calls it with its own pieces; the folder is there already."""
    with _told():
        planner = checkpoint.DefaultSavePlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
        writer = _Writer(folder, here.rank)
        checkpoint.save(dict(tensors), storage_writer=writer, planner=planner, no_dist=here.world == 1)


def read_shards(shelf: Shelf, likes: Mapping[str, Tensor], here: Ranks) -> dict[str, Tensor]:
    """Every tensor: in pieces where `likes` has one that is cut, else whole and on the CPU."""
    found = {name: _room(likes.get(name), kind, shape) for name, (kind, shape, _) in shelf.tensors.items()}
    with _told():
        planner = checkpoint.DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
        checkpoint.load(found, storage_reader=_Reader(shelf), planner=planner, no_dist=here.world == 1)
    return found


def _room(like: Tensor | None, kind: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    if isinstance(like, DTensor) and tuple(like.shape) == shape:
        return torch.empty_like(like.detach(), dtype=kind)
    return torch.empty(shape, dtype=kind)


def whole_shelf(file: Path) -> Shelf:
    """A single safetensors file as a shelf: each of its tensors is one piece."""
    weights = open_weights(file)
    tensors = {}
    for name in weights:
        shape = weights.shape(name)
        tensors[name] = (weights.dtype(name), shape, [Piece((0,) * len(shape), shape, file.name, name)])
    return Shelf(tensors, {file.name: weights})


def open_shelf(folder: Path) -> Shelf:
    """The pieces of a folder. The index must agree with the files that it names; the pieces must fill the tensors."""
    content = read_json(folder / INDEX).get("tensors")
    if not isinstance(content, dict):
        raise ClearheadError(f"{shown(folder / INDEX)} has no 'tensors'")
    try:
        tensors = {name: _entry(entry) for name, entry in content.items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ClearheadError(f"{shown(folder / INDEX)} holds something that is not a tensor in pieces") from None
    names = {piece.file for _, _, pieces in tensors.values() for piece in pieces}
    foreign = [name for name in names if not FILE.fullmatch(name)]
    if foreign:
        raise ClearheadError(f"{shown(folder / INDEX)} names {quoted(foreign[0])}, which is no file of pieces")
    shelf = Shelf(tensors, {name: open_weights(folder / name) for name in sorted(names)})
    for name, (kind, shape, pieces) in tensors.items():
        if not _fits(shelf, kind, shape, pieces):
            raise ClearheadError(f"{shown(folder)}: the pieces of {quoted(name)} are missing or don't make the whole")
    return shelf


def _entry(entry: Mapping[str, Any]) -> tuple[torch.dtype, tuple[int, ...], list[Piece]]:
    pieces = [
        Piece(_sizes(one["at"]), _sizes(one["shape"]), str(one["file"]), str(one["name"])) for one in entry["pieces"]
    ]
    return TYPES[entry["dtype"]], _sizes(entry["shape"]), pieces


def _sizes(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(type(value) is int and value >= 0 for value in values):
        raise ValueError("not a shape")
    return tuple(values)


def _fits(shelf: Shelf, kind: torch.dtype, shape: tuple[int, ...], pieces: list[Piece]) -> bool:
    for piece in pieces:
        weights = shelf.files[piece.file]
        if piece.name not in weights or (weights.dtype(piece.name), weights.shape(piece.name)) != (kind, piece.shape):
            return False
        if not len(piece.at) == len(piece.shape) == len(shape):
            return False
        if any(at + size > most for at, size, most in zip(piece.at, piece.shape, shape, strict=True)):
            return False
    return sum(math.prod(piece.shape) for piece in pieces) == math.prod(shape)


class _Writer(checkpoint.StorageWriter):
    def __init__(self, folder: Path, rank: int) -> None:
        self.folder, self.file = folder, f"rank-{rank:05d}.safetensors"

    def reset(self, checkpoint_id: Any = None) -> None:
        """One writer writes once."""

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """The folder is there."""

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[Any]]:
        pieces: dict[str, Tensor] = {}
        results = []
        for item in plan.items:
            data = planner.resolve_data(item)
            if not isinstance(data, Tensor):
                raise ClearheadError(f"{quoted(item.index.fqn)} is not a tensor: it can't be written in pieces")
            name = _piece_name(item.index)
            pieces[name] = data.detach()
            results.append(checkpoint.storage.WriteResult(item.index, data.nbytes, (self.file, name)))
        if pieces:
            write_safetensors(self.folder / self.file, pieces, {"format": "pt"})
        done: Future[list[Any]] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: list[list[Any]]) -> None:
        """In the first process: what was written where."""
        written = {(one.index.fqn, one.index.offset): one.storage_data for some in results for one in some}
        tensors = {}
        for name, entry in metadata.state_dict_metadata.items():
            assert isinstance(entry, TensorStorageMetadata)
            pieces = []
            for chunk in entry.chunks:
                file, kept = written[name, chunk.offsets]
                pieces.append({"at": list(chunk.offsets), "shape": list(chunk.sizes), "file": file, "name": kept})
            kind = str(entry.properties.dtype).removeprefix("torch.")
            tensors[name] = {"dtype": kind, "shape": list(entry.size), "pieces": pieces}
        (self.folder / INDEX).write_text(json.dumps({"tensors": tensors}) + "\n", encoding="utf-8")

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return False


class _Reader(checkpoint.StorageReader):
    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.places = {
            (name, torch.Size(piece.at)): piece for name, (_, _, pieces) in shelf.tensors.items() for piece in pieces
        }

    def reset(self, checkpoint_id: Any = None) -> None:
        """One reader reads once."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        entries = {}
        for name, (kind, shape, pieces) in self.shelf.tensors.items():
            chunks = [ChunkStorageMetadata(torch.Size(piece.at), torch.Size(piece.shape)) for piece in pieces]
            entries[name] = TensorStorageMetadata(TensorProperties(dtype=kind), torch.Size(shape), chunks)
        places = {MetadataIndex(name, at): piece for (name, at), piece in self.places.items()}
        return Metadata(entries, storage_data=places)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """The files are open."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        for item in plan.items:
            assert item.type == LoadItemType.TENSOR
            piece = self.places[item.storage_index.fqn, item.storage_index.offset or torch.Size()]
            stored = self.shelf.files[piece.file][piece.name]
            for dimension, (start, length) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
                stored = stored.narrow(dimension, start, length)
            room = planner.resolve_tensor(item).detach()
            room.copy_(stored)
            planner.commit_tensor(item, room)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return False


def _piece_name(index: MetadataIndex) -> str:
    return f"{index.fqn}@{','.join(map(str, index.offset or ()))}"


@contextmanager
def _told() -> Iterator[None]:
    """What goes wrong in one process, in one line, in all of them. That one process alone is meant is known."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled", category=UserWarning)
            yield
    except checkpoint.CheckpointException as problem:
        rank, (cause, _) = next(iter(problem.failures.items()))
        reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else cause
        raise ClearheadError(f"process {rank}: {shown(reason)}") from None
