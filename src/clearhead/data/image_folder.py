"""A user's own pictures: a folder with one folder per class, or `train`, `val` and `test` with such folders each.

    photos/cat/1.jpg               photos/train/cat/1.jpg
    photos/dog/2.jpg               photos/val/cat/3.jpg, photos/test/dog/4.jpg

The rules:
- Without `train`, a tenth of each class is held back as "test" and another as "valid", by class and by `seed` alone.
  With `train` the folders are taken as they are; where there is no `val`, a ninth of `train` is held back.
- Every file is decoded once. What can't be, what lies beside the classes or deeper, and links that lead out of the
  folder are left out, counted and named. Hidden files (`.DS_Store`) are passed over.
- A class of fewer than two pictures (in `train`, where there is one) is refused: it could be learnt or tested, not
  both.
- Pictures of one small size live in memory, as RGB; others stay files.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ClearheadError, shown, some
from .image_archives import in_threads, pictures
from .kinds import Dataset, Pictures
from .picture_splits import chosen, stratified
from .pictures import open_picture
from .text_files import left_out

PART_NAMES = {"train": ("train", "training"), "valid": ("val", "valid", "validation"), "test": ("test", "testing")}
SMALL_EDGE = 128
SMALL_SET = 2**30  # bytes

Listing = Mapping[str, Sequence[Path]]


def image_folder(folder: str | os.PathLike[str], seed: int = 0) -> Dataset[Pictures]:
    """The pictures of a folder by class, in parts."""
    root = Path(folder)
    if not root.is_dir():
        raise ClearheadError(f"{shown(root)} is no folder: give one that holds a folder of pictures for each class")
    left: list[str] = []
    listings = {part: class_files(place, root, left) for part, place in _places(root, left).items()}
    sizes = _sizes([file for listing in listings.values() for files in listing.values() for file in files], root, left)
    classes = tuple(listings["train"])
    _check_classes(root, listings, sizes)
    small = len(set(sizes.values())) == 1 and _is_small(next(iter(sizes.values())), len(sizes))
    parts = {part: _part(listing, classes, sizes, small) for part, listing in listings.items()}
    notes = left_out(root, left, len(sizes), "files")
    return Dataset(root.resolve().name, "pictures", _split(parts, seed), classes, notes=notes)


def class_files(folder: Path, root: Path, left: list[str]) -> dict[str, list[Path]]:
    """The files of each class, by its folder's name; whatever else is there is named in `left`. Nothing is opened."""
    listing: dict[str, list[Path]] = {}
    for entry in _entries(folder, root, left):
        if not entry.is_dir():
            left.append(f"{_below(entry.path, root)}: it lies beside the folders of the classes")
            continue
        listing[entry.name] = []
        for file in _entries(Path(entry.path), root, left):
            if file.is_file():
                listing[entry.name].append(Path(file.path))
            else:
                left.append(f"{_below(file.path, root)}: a folder inside a class is not read")
    return listing


def _entries(folder: Path, root: Path, left: list[str]) -> Iterable[Any]:
    """What a folder holds, by name, without hidden entries and without links that lead out of `root`."""
    try:
        with os.scandir(folder) as scan:
            entries = sorted((entry for entry in scan if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError as error:
        raise ClearheadError(f"{shown(folder)} can't be read: {error.strerror or error}") from None
    base = root.resolve()
    for entry in entries:
        if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(base):
            left.append(f"{_below(entry.path, root)}: a link that leads out of the folder")
        else:
            yield entry


def _places(root: Path, left: list[str]) -> dict[str, Path]:
    """The folder of each part. A folder without `train` is one that is split here: all of it counts as "train"."""
    entries = {entry.name.lower(): entry for entry in _entries(root, root, []) if entry.is_dir()}
    found = {part: [entries.pop(name) for name in names if name in entries] for part, names in PART_NAMES.items()}
    twice = [entry.name for same in found.values() if len(same) > 1 for entry in same]
    if twice:
        raise ClearheadError(f"{shown(root)} has the same part under two names, {some(twice)}: keep one of them")
    places = {part: Path(same[0].path) for part, same in found.items() if same}
    if not places:
        return {"train": root}
    if "train" not in places:
        raise ClearheadError(f"{shown(root)} has a folder for {' and '.join(places)} but none called 'train'")
    left += [f"{entry.name}: a folder beside train, val and test is not read" for entry in entries.values()]
    return places


def _sizes(files: Sequence[Path], root: Path, left: list[str]) -> dict[Path, tuple[int, int]]:
    """(width, height) of every picture that can be decoded; the others are named in `left`."""

    def size(file: Path) -> tuple[int, int] | str:
        try:
            return open_picture(file).size
        except ClearheadError as error:
            return str(error).removeprefix(f"{file} ")

    sizes = {}
    for file, result in zip(files, in_threads(size, files), strict=True):
        if isinstance(result, str):
            left.append(f"{_below(file, root)}: {result}")
        else:
            sizes[file] = result
    return sizes


def _check_classes(root: Path, listings: Mapping[str, Listing], good: Mapping[Path, Any]) -> None:
    train = listings["train"]
    if not train:
        raise ClearheadError(f"{shown(root)} holds no folders of pictures: make one for each class")
    few = [name for name, files in train.items() if sum(file in good for file in files) < 2]
    if few:
        raise ClearheadError(
            f"{shown(root)}: a class needs two pictures that can be read, and {some(few)} has fewer: "
            "add pictures or take the folder away"
        )
    for part, listing in listings.items():
        unknown = [name for name in listing if name not in train]
        if unknown:
            raise ClearheadError(f"{shown(root)}: the class {some(unknown)} of '{part}' has no pictures in 'train'")
        if not any(file in good for files in listing.values() for file in files):
            raise ClearheadError(f"{shown(root)}: the part '{part}' has no picture that can be read")


def _is_small(size: tuple[int, int], count: int) -> bool:
    return max(size) <= SMALL_EDGE and 3 * size[0] * size[1] * count <= SMALL_SET


def _part(listing: Listing, classes: Sequence[str], sizes: Mapping[Path, Any], small: bool) -> Pictures:
    number = {name: index for index, name in enumerate(classes)}
    rows = [(file, number[name]) for name, files in listing.items() for file in files if file in sizes]
    files, labels = [file for file, _ in rows], [label for _, label in rows]
    pixels = np.stack(in_threads(_pixels, files)) if small else files
    return pictures(pixels, labels, len(classes), "the folder")


def _pixels(file: Path) -> np.ndarray:
    return np.asarray(open_picture(file)).transpose(2, 0, 1)


def _split(parts: Mapping[str, Pictures], seed: int) -> dict[str, Pictures]:
    """The parts as they were given, with "valid", and from a folder without parts "test", held back from "train"."""
    train, rest = parts["train"], {part: pixels for part, pixels in parts.items() if part != "train"}
    wanted = (("test", 1 / 10), ("valid", 1 / 9)) if not rest else (("valid", 1 / 9),)
    for part, share in wanted:
        if part not in rest:
            stay, held = stratified(train.labels, share, seed)
            train, rest[part] = chosen(train, stay), chosen(train, held)
    return {"train": train, **{part: rest[part] for part in ("valid", "test") if part in rest}}


def _below(path: str | Path, root: Path) -> str:
    return shown(os.path.relpath(path, root))
