"""Sets of photographs in their authors' layouts, below the folder that CLEARHEAD_DATA names. Photographs stay files.

    pets/        images/*.jpg, annotations/trainval.txt, test.txt    (or packed: pets64/trainval.npz, test.npz)
    flowers102/  jpg/image_00001.jpg ..., imagelabels.mat, setid.mat
    imagenet/    train/<wnid>/*.JPEG, and val/<wnid>/*.JPEG or val/*.JPEG with the development kit's
                 ILSVRC2012_devkit_t12/data/{meta.mat,ILSVRC2012_validation_ground_truth.txt}

Photographs that a list names and the folder lacks are counted, named and left out.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..errors import ClearheadError, shown, some
from ..files import read_text
from .image_archives import Folder, class_names, decoded, in_threads, pictures, place, present, read_matlab, read_packed
from .image_folder import class_files
from .kinds import Dataset, Pictures
from .text_files import data_root, facts, left_out, places

IMAGENET_KIT = "ILSVRC2012_devkit_t12/data"
IMAGENET_CLASSES = 1000


def pets(folder: Folder = None) -> Dataset[Pictures]:
    """Oxford-IIIT Pets (Parkhi and others 2012): 37 breeds, official trainval 3,680 ("train") and test 3,669.

    The packed form has a short side of 64 and is cut to its middle square, in memory; the photographs stay files.
    """
    listed = "annotations/trainval.txt"
    file = place("pets", (listed, "trainval.npz"), folder, f"pets/{listed}")
    if file.suffix == ".npz":
        classes = class_names(present(file.parent / "classes.txt"))
        files = {"train": file, "test": present(file.parent / "test.npz")}
        return Dataset("pets", "pictures", {part: _squares(one, len(classes)) for part, one in files.items()}, classes)
    root, left, parts, names = file.parent.parent, [], {}, {}
    for part, listed in (("train", "trainval.txt"), ("test", "test.txt")):
        rows = _annotated(present(file.parent / listed), names)
        parts[part] = _there(root / "images", [(f"{name}.jpg", label) for name, label in rows], left)
    classes = tuple(names.get(number, f"class {number + 1}") for number in range(max(names) + 1))
    return _photographs("pets", root, parts, classes, left)


def _squares(file: Path, classes: int) -> Pictures:
    raws, labels = read_packed(file)

    def middle(raw: bytes) -> np.ndarray:
        pixels = decoded(raw, shown(file))
        edge = min(pixels.shape[:2])
        top, left = ((size - edge) // 2 for size in pixels.shape[:2])
        return pixels[top : top + edge, left : left + edge].transpose(2, 0, 1)

    squares = in_threads(middle, raws)
    if len({square.shape for square in squares}) != 1:
        raise ClearheadError(f"{shown(file)} holds pictures whose short sides differ")
    return pictures(np.stack(squares), labels, classes, shown(file))


def _annotated(file: Path, names: dict[int, str]) -> list[tuple[str, int]]:
    """Picture names and classes (from 0) of one list; `names` gathers what the classes are called."""
    rows = []
    for number, line in enumerate(read_text(file).splitlines(), start=1):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        if len(fields) != 4 or not fields[1].isdecimal() or not 1 <= int(fields[1]) <= 1000 or _leads_away(fields[0]):
            raise ClearheadError(f"{shown(file)} line {number} is not a name, a class, a species and a breed")
        rows.append((fields[0], int(fields[1]) - 1))
        names[rows[-1][1]] = fields[0].rpartition("_")[0]
    if not rows:
        raise ClearheadError(f"{shown(file)} names no picture")
    return rows


def _leads_away(name: str) -> bool:
    return name != os.path.basename(name)


def flowers102(folder: Folder = None) -> Dataset[Pictures]:
    """Flowers-102 (Nilsback and Zisserman 2008): 1,020 to train, 1,020 to validate, 6,149 to test; numbered classes."""
    file = place("flowers102", ("setid.mat",), folder, "flowers102/setid.mat")
    root, left = file.parent, []
    labels = _numbers(present(root / "imagelabels.mat"), "labels")
    parts = {}
    for part, key in (("train", "trnid"), ("valid", "valid"), ("test", "tstid")):
        ids = _numbers(file, key)
        if max(ids) > len(labels):
            raise ClearheadError(f"{shown(file)} asks for picture {max(ids)}, and {len(labels)} have a label")
        parts[part] = _there(root / "jpg", [(f"image_{n:05d}.jpg", labels[n - 1] - 1) for n in ids], left)
    return _photographs("flowers102", root, parts, tuple(str(n) for n in range(1, max(labels) + 1)), left)


def _numbers(file: Path, key: str) -> list[int]:
    """A list of whole numbers from 1 on in a MATLAB file."""
    values = np.atleast_1d(read_matlab(file).get(key, []))
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "ui" or values.min() < 1:
        raise ClearheadError(f"{shown(file)} holds no list of whole numbers '{key}'")
    return values.astype(np.int64).tolist()


def imagenet(folder: Folder = None) -> Dataset[Pictures]:
    """ImageNet (Russakovsky and others 2015): the validation photographs are the part "test", as published figures use.

    A class is called by its WordNet number. Nothing is opened: there are 1.3 million files.
    """
    base = data_root("imagenet", "imagenet/train", folder)
    root = next((one for one in places("imagenet", base) if (one / "train").is_dir()), None)
    if root is None:
        wanted, fetch = shown(base / "imagenet/train"), facts("imagenet")["fetch"]
        raise ClearheadError(f"{wanted} is missing: fetch {fetch} and put a folder of pictures for each class there")
    train, left = root / "train", []
    listings = {"train": class_files(train, root, left)}
    val = present(root / "val")
    kit = root / IMAGENET_KIT
    listings["test"] = _flat_validation(val, kit) if kit.is_dir() else class_files(val, root, left)
    classes = tuple(sorted(name for name, files in listings["train"].items() if files))
    unknown = sorted(name for name, files in listings["test"].items() if files and name not in classes)
    if unknown or not classes:
        raise ClearheadError(f"{shown(train)} has no pictures of {some(unknown) if unknown else 'any class'}")
    if not any(listings["test"].values()):
        raise ClearheadError(
            f"{shown(val)} has no folder for each class: sort its pictures so, or unpack the development kit as {kit}"
        )
    number = {name: index for index, name in enumerate(classes)}
    parts = {
        part: [(file, number[name]) for name in classes for file in listing.get(name, ())]
        for part, listing in listings.items()
    }
    return _photographs("imagenet", root, parts, classes, left)


def _flat_validation(val: Path, kit: Path) -> dict[str, list[Path]]:
    """The validation pictures by class, as the development kit tells it: line n is the class of picture n."""
    synsets = read_matlab(present(kit / "meta.mat")).get("synsets")
    if not isinstance(synsets, np.ndarray) or not {"ILSVRC2012_ID", "WNID"} <= set(synsets.dtype.names or ()):
        raise ClearheadError(f"{shown(kit / 'meta.mat')} holds no table of classes")
    names = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in synsets}
    truth = present(kit / "ILSVRC2012_validation_ground_truth.txt")
    listing: dict[str, list[Path]] = {}
    for number, line in enumerate(read_text(truth).split(), start=1):
        if not line.isdecimal() or not 1 <= int(line) <= IMAGENET_CLASSES or int(line) not in names:
            raise ClearheadError(f"{shown(truth)} line {number} is no class of meta.mat: {shown(line, 20)}")
        file = val / f"ILSVRC2012_val_{number:08d}.JPEG"
        listing.setdefault(names[int(line)], []).append(present(file))
    return listing


Rows = Sequence[tuple[Path, int]]


def _there(folder: Path, rows: Sequence[tuple[str, int]], left: list[str]) -> list[tuple[Path, int]]:
    """The rows whose file is in the folder; the others are named in `left`."""
    present_names = {entry.name for entry in os.scandir(folder)} if folder.is_dir() else set()
    left += [f"{name}: it is missing from {folder.name}" for name, _ in rows if name not in present_names]
    return [(folder / name, label) for name, label in rows if name in present_names]


def _photographs(
    name: str, root: Path, parts: Mapping[str, Rows], classes: tuple[str, ...], left: Sequence[str]
) -> Dataset[Pictures]:
    for part, rows in parts.items():
        if not rows:
            raise ClearheadError(f"{shown(root)} holds none of the pictures of {name}'s part '{part}'")
    read = {
        part: pictures([file for file, _ in rows], [label for _, label in rows], len(classes), shown(root))
        for part, rows in parts.items()
    }
    return Dataset(
        name, "pictures", read, classes, notes=left_out(root, left, sum(map(len, parts.values())), "pictures")
    )
