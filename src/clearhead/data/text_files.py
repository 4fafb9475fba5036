"""Where a named set lies and how its texts are opened: plain, gzipped or inside a zip, which is never unpacked.

`sets.json` beside this file holds what is known of every named set: the folders it may lie in, what to fetch, and the
size and SHA-256 of its files. A reader looks in those folders inside the one that CLEARHEAD_DATA (or the caller) names,
then in that one itself, and nowhere else.
"""

import gzip
import hashlib
import logging
import os
import zipfile
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from ..errors import ClearheadError, near, shown
from ..files import read_json

FOLDER_VARIABLE = "CLEARHEAD_DATA"
SHOWN = 5
LARGEST_TEXT = 4 * 2**30  # bytes of one text once it is unpacked
NOT_READABLE = (OSError, EOFError, zlib.error, zipfile.BadZipFile, KeyError, NotImplementedError, RuntimeError)

Folder = str | os.PathLike[str] | None
T = TypeVar("T")

log = logging.getLogger("clearhead")


@cache
def all_facts() -> dict[str, Any]:
    """What sets.json says of every named set."""
    return read_json(Path(__file__).with_name("sets.json"))


def facts(name: str) -> dict[str, Any]:
    known = all_facts()
    if name not in known:
        raise ClearheadError(f"no data set is called {name!r}{near(name, known) or ': known are ' + ', '.join(known)}")
    return known[name]


def data_root(name: str, wanted: str, folder: Folder) -> Path:
    """The folder of data sets: the one given, or the one that the environment names."""
    root = folder or os.environ.get(FOLDER_VARIABLE)
    if not root:
        raise ClearheadError(
            f"no folder of data sets is named: set {FOLDER_VARIABLE} to one that holds {wanted}, "
            f"from {facts(name)['fetch']}"
        )
    return Path(root)


def places(name: str, root: Path) -> list[Path]:
    """Every folder in which a set may lie, the usual one first."""
    return [root / place for place in facts(name)["folders"]] + [root]


def locate(name: str, files: Sequence[str], folder: Folder) -> Path | None:
    """The first of `files` (one thing under the names of several distributions) that there is."""
    root = data_root(name, f"{facts(name)['folders'][0]}/{files[0]}", folder)
    candidates = (place / file for place in places(name, root) for file in files)
    return next((file for file in candidates if file.is_file()), None)


def find(name: str, files: Sequence[str], folder: Folder) -> Path:
    """The same; what is missing is told together with where to put it."""
    found = locate(name, files, folder)
    if found is None:
        wanted = f"{facts(name)['folders'][0]}/{files[0]}"
        file = data_root(name, wanted, folder) / wanted
        raise ClearheadError(f"{file} is missing: fetch {facts(name)['fetch']} and put its {file.name} there")
    return found


def read_bytes(path: Path, member: str | None = None) -> bytes:
    """A whole file, unpacked where it is gzipped; or one member of a zip."""
    try:
        raw = _raw(path, member)
    except NOT_READABLE as error:
        reason = getattr(error, "strerror", None) or error
        raise ClearheadError(f"{shown(path)} can't be read: {shown(reason)}") from None
    if len(raw) > LARGEST_TEXT:
        raise ClearheadError(f"{shown(path)} holds more than {LARGEST_TEXT:,} bytes of text, which is refused")
    return raw


def _raw(path: Path, member: str | None) -> bytes:
    if member is not None:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            return file.read(LARGEST_TEXT + 1)
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return file.read(LARGEST_TEXT + 1)


def read_document(path: Path, member: str | None = None) -> str:
    """The UTF-8 text of a file; a byte-order mark is dropped and Windows' line ends become plain ones."""
    try:
        text = read_bytes(path, member).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ClearheadError(
            f"{shown(path)} is not UTF-8 text (byte {error.start}): it is broken or another kind of file"
        ) from None
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def read_lines(path: Path, member: str | None = None) -> list[str]:
    """Its lines. They end at a newline and at nothing else: line i must stay line i in a parallel text."""
    lines = read_document(path, member).split("\n")
    return lines if lines[-1] else lines[:-1]


def parse_rows(
    file: Path, lines: Sequence[str], parse: Callable[[str], T], headings: int = 0, what: str = "row"
) -> tuple[list[T], list[str]]:
    """Every line that `parse` takes, and what is wrong with each of the others. No good line at all is an error."""
    good: list[T] = []
    bad: list[str] = []
    for number, line in enumerate(lines[headings:], start=headings + 1):
        try:
            good.append(parse(line))
        except ClearheadError as problem:
            bad.append(f"line {number}: {problem}")
    if not good:
        raise ClearheadError(f"{shown(file)} holds no {what} that can be read{f' ({bad[0]})' if bad else ''}")
    return good, bad


def left_out(file: Path | str, bad: Sequence[str], kept: int, what: str = "rows") -> tuple[str, ...]:
    """The note about rows that were left out, told to the log too; no note where there are none."""
    if not bad:
        return ()
    more = ", ..." if len(bad) > SHOWN else ""
    note = f"{shown(file)}: {len(bad)} of {len(bad) + kept} {what} left out: {'; '.join(bad[:SHOWN])}{more}"
    log.warning("%s", note)
    return (note,)


def require(condition: object, message: str) -> None:
    if not condition:
        raise ClearheadError(message)


def lot(text: str, seed: int = 0) -> float:
    """A number from 0 to 1 drawn for a text: by its letters and the seed alone, so on every machine the same."""
    salt = (seed % 2**64).to_bytes(8, "little")
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, salt=salt).digest()
    return int.from_bytes(digest, "little") / 2**64
