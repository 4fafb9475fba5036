"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009): 50,000 + 10,000 pictures of 32 x 32, in the official order.

Read as packed for this project (lossless strips of pictures under one another) or in either of the authors' versions,
python or binary. Files of theirs whose MD5 is not the published one are read, and named in the notes.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ClearheadError, shown
from .array_pickle import parse_array_pickle
from .image_archives import Folder, class_names, decoded, in_threads, pictures, place, present, read_packed
from .image_archives import read_bytes as content
from .kinds import Dataset, Pictures

EDGE = 32
BYTES = 3 * EDGE * EDGE
PUBLISHED_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
    "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}

log = logging.getLogger("clearhead")

Rows = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class _Layout:
    """What the files of one of the two sets are called."""

    name: str
    classes: int
    packed: Mapping[str, Sequence[str]]
    batches: Mapping[str, Sequence[str]]
    folders: tuple[str, str]
    meta: str
    names_key: str
    labels_key: str
    names_file: str
    label_bytes: int  # of the binary version: CIFAR-100 puts the coarse label before the fine one


_TEN = _Layout(
    name="cifar10",
    classes=10,
    packed={"train": ("train_a", "train_b"), "test": ("test",)},
    batches={"train": tuple(f"data_batch_{n}" for n in range(1, 6)), "test": ("test_batch",)},
    folders=("cifar-10-batches-py", "cifar-10-batches-bin"),
    meta="batches.meta",
    names_key="label_names",
    labels_key="labels",
    names_file="batches.meta.txt",
    label_bytes=1,
)
_HUNDRED = _Layout(
    name="cifar100",
    classes=100,
    packed={"train": ("train_a", "train_b", "train_c", "train_d"), "test": ("test",)},
    batches={"train": ("train",), "test": ("test",)},
    folders=("cifar-100-python", "cifar-100-binary"),
    meta="meta",
    names_key="fine_label_names",
    labels_key="fine_labels",
    names_file="fine_label_names.txt",
    label_bytes=2,
)


def cifar10(folder: Folder = None) -> Dataset[Pictures]:
    """CIFAR-10: ten classes."""
    return _read(_TEN, folder)


def cifar100(folder: Folder = None) -> Dataset[Pictures]:
    """CIFAR-100: its hundred fine classes."""
    return _read(_HUNDRED, folder)


def _read(layout: _Layout, folder: Folder) -> Dataset[Pictures]:
    """Whichever version is there, the packed one first."""
    first, (python, binary) = layout.batches["train"][0], layout.folders
    marks = ("train_a.npz", first, f"{python}/{first}", f"{first}.bin", f"{binary}/{first}.bin")
    file = place(layout.name, marks, folder, f"{layout.name}/{python}/{first}")
    reader = {".npz": _packed, ".bin": _binary}.get(file.suffix, _pickled)
    read, classes, notes = reader(layout, file.parent)
    if len(classes) != layout.classes:
        raise ClearheadError(f"{shown(file.parent)} names {len(classes)} classes; {layout.name} has {layout.classes}")
    parts = {}
    for part, pieces in read.items():
        pixels, labels = (np.concatenate(piece) for piece in zip(*pieces, strict=True))
        parts[part] = pictures(pixels, labels, layout.classes, f"{file.parent} ({part})")
    return Dataset(layout.name, "pictures", parts, classes, notes=notes)


Version = tuple[dict[str, list[Rows]], tuple[str, ...], tuple[str, ...]]


def _packed(layout: _Layout, folder: Path) -> Version:
    files = {part: [present(folder / f"{name}.npz") for name in names] for part, names in layout.packed.items()}
    classes = class_names(present(folder / "classes.txt"))
    return {part: [_strips(file) for file in each] for part, each in files.items()}, classes, ()


def _strips(file: Path) -> Rows:
    strips, labels = read_packed(file)

    def cut(raw: bytes) -> np.ndarray:
        strip = decoded(raw, shown(file))
        if strip.shape[1] != EDGE or strip.shape[0] % EDGE:
            raise ClearheadError(f"{shown(file)} holds a strip of {strip.shape[1]} x {strip.shape[0]}, not {EDGE} wide")
        return np.ascontiguousarray(strip.reshape(-1, EDGE, EDGE, 3).transpose(0, 3, 1, 2))

    return np.concatenate(in_threads(cut, strips)), labels


def _pickled(layout: _Layout, folder: Path) -> Version:
    """The python version: pickles, read by a reader that runs nothing."""
    notes: list[str] = []

    def unpickled(name: str) -> dict[str, Any]:
        raw = content(present(folder / name))
        if hashlib.md5(raw, usedforsecurity=False).hexdigest() != PUBLISHED_MD5[name]:
            notes.append(f"{shown(folder / name)} is not the published file: its MD5 differs")
            log.warning("%s", notes[-1])
        return parse_array_pickle(raw, shown(folder / name))

    read = {
        part: [_rows(unpickled(name), layout.labels_key, folder / name) for name in names]
        for part, names in layout.batches.items()
    }
    return read, _names(unpickled(layout.meta), layout.names_key, folder / layout.meta), tuple(notes)


def _rows(batch: Mapping[str, Any], key: str, file: Path) -> Rows:
    data, labels = batch.get("data"), batch.get(key)
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != BYTES:
        raise ClearheadError(f"{shown(file)} holds no 'data' of {BYTES:,} bytes a picture")
    if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 256 for label in labels):
        raise ClearheadError(f"{shown(file)} holds no list of labels '{key}'")
    return data.reshape(-1, 3, EDGE, EDGE), np.array(labels, np.int64)


def _names(meta: Mapping[str, Any], key: str, file: Path) -> tuple[str, ...]:
    names = meta.get(key)
    if not isinstance(names, list) or not all(isinstance(name, str | bytes) for name in names):
        raise ClearheadError(f"{shown(file)} holds no list of names '{key}'")
    return tuple(name.decode("latin-1") if isinstance(name, bytes) else name for name in names)


def _binary(layout: _Layout, folder: Path) -> Version:
    """The binary version: a picture is one or two label bytes and then its three planes."""
    read = {
        part: [_records(present(folder / f"{name}.bin"), layout.label_bytes) for name in names]
        for part, names in layout.batches.items()
    }
    return read, class_names(present(folder / layout.names_file)), ()


def _records(file: Path, label_bytes: int) -> Rows:
    raw = np.frombuffer(content(file), np.uint8)
    if len(raw) == 0 or len(raw) % (label_bytes + BYTES):
        raise ClearheadError(f"{shown(file)} has {len(raw):,} bytes, no whole number of pictures: it is damaged")
    rows = raw.reshape(-1, label_bytes + BYTES)
    return rows[:, label_bytes:].reshape(-1, 3, EDGE, EDGE), rows[:, label_bytes - 1]
