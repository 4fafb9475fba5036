"""Every named data set: what it is, whether it is there, how it is read, whether its files are whole.

    open_set("multi30k", "my/data", source="de", target="en")

What is known of a set lies in `sets.json`. Its reader is imported when the set is opened.
"""

import hashlib
import importlib
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ClearheadError, near
from .kinds import Dataset
from .text_files import FOLDER_VARIABLE, Folder, all_facts, data_root, facts, places, require

NOT_SUPPORTED = {
    "vtab": "VTAB is not supported: it is nineteen sets behind TensorFlow's own readers; take its sets one by one, "
    "such as cifar100, pets or flowers102",
}
CHUNK = 2**20


@dataclass(frozen=True)
class NamedSet:
    """What is known of a set without reading it."""

    name: str
    kind: str
    about: str
    embedded: bool
    present: bool
    fetch: str | None
    """What to fetch where it is missing; None for a set that comes with the package or with Python."""
    where: str | None
    """The folder in which it lies or should lie, below the folder of data sets."""
    size: int | None
    """Bytes of its files, where they are known."""


@dataclass(frozen=True)
class Check:
    """What came of comparing a set's files with their known sizes and SHA-256."""

    name: str
    folder: Path | None
    good: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    note: str | None = None
    """Why nothing could be compared."""

    @property
    def whole(self) -> bool:
        return not self.missing and not self.wrong and (bool(self.good) or self.folder is None)


def open_set(name: str, folder: Folder = None, **options: Any) -> Dataset:
    """Read a named set from `folder` or the one that CLEARHEAD_DATA names; `options` are its reader's own.

    A misspelt name or option is told the nearest; missing data, what to fetch and where to put it.
    """
    known = facts(_named(name))
    reader = _reader(name)
    accepted = [option for option in inspect.signature(reader).parameters if option != "folder"]
    for option in options:
        takes = f"it takes {', '.join(accepted)}" if accepted else "it takes none"
        require(option in accepted, f"{name} has no option {option!r}: {takes}{near(option, accepted)}")
    return reader(folder, **options) if known["folders"] else reader(**options)


def list_sets(folder: Folder = None) -> list[NamedSet]:
    """Every named set; those of a folder are present where their files, or others in their place, are."""
    root = folder or os.environ.get(FOLDER_VARIABLE)
    return [_described(name, Path(root) if root else None) for name in all_facts()]


def check_set(name: str, folder: Folder = None, progress: Callable[[int, int], None] | None = None) -> Check:
    """Compare a set's files with their known checksums. `progress` is told the bytes done and the bytes in all.

    Where a set comes in several layouts, the one of which most files are there is meant.
    """
    known = facts(_named(name))
    if not known["folders"]:
        return Check(name, None, note="it comes with the package or with Python: there is no file to check")
    root = data_root(name, known["folders"][0], folder)
    there = [place for place in places(name, root)[:-1] if _holds_files(place)]
    if not there:
        raise ClearheadError(f"{root / known['folders'][0]} is missing: fetch {known['fetch']} and put it there")
    choices = [(place, layout) for place in there for layout in known["layouts"]]
    place, layout = max(choices, key=lambda choice: _count(*choice), default=(there[0], {}))
    if _count(place, layout) == 0:
        return Check(name, place, note="no checksums are known for the files that are there")
    return _compared(name, place, layout, progress)


def _named(name: str) -> str:
    if name.lower() in NOT_SUPPORTED:
        raise ClearheadError(NOT_SUPPORTED[name.lower()])
    facts(name)
    return name


def _reader(name: str) -> Callable[..., Dataset]:
    module, function = facts(name)["reader"].split(":")
    return getattr(importlib.import_module(f"{__package__}.{module}"), function)


def _described(name: str, root: Path | None) -> NamedSet:
    known = facts(name)
    embedded = not known["folders"]
    candidates = places(name, root)[:-1] if root and not embedded else []
    place = next((place for place in candidates if _holds_files(place)), None)
    where = None if embedded else (place or Path(known["folders"][0])).name
    size = sum(size for size, _ in known["layouts"][0].values()) if known["layouts"] else None
    present = embedded or place is not None
    return NamedSet(name, known["kind"], known["about"], embedded, present, known["fetch"], where, size)


def _holds_files(folder: Path) -> bool:
    """Whether there is anything in a folder but what describes it."""
    return folder.is_dir() and any(file.name != "SOURCE.md" for file in folder.iterdir())


def _count(place: Path, layout: dict[str, Any]) -> int:
    return sum((place / file).is_file() for file in layout)


def _compared(
    name: str, place: Path, layout: dict[str, tuple[int, str]], progress: Callable[[int, int], None] | None
) -> Check:
    total, done = sum(size for size, _ in layout.values()), 0
    good, missing, wrong = [], [], []
    for file, (size, expected) in layout.items():
        path = place / file
        if not path.is_file():
            missing.append(file)
        elif path.stat().st_size != size:
            wrong.append(f"{file}: {path.stat().st_size:,} bytes, not {size:,}")
        elif _sha256(path, lambda read, before=done: progress and progress(before + read, total)) != expected:
            wrong.append(f"{file}: the right size, but another checksum")
        else:
            good.append(file)
        done += size
        if progress:
            progress(done, total)
    return Check(name, place, tuple(good), tuple(missing), tuple(wrong))


def _sha256(path: Path, told: Callable[[int], object]) -> str:
    digest, read = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                read += len(chunk)
                told(read)
    except OSError as error:
        raise ClearheadError(f"{path} can't be read: {error.strerror or error}") from None
    return digest.hexdigest()
