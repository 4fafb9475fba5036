"""Text and JSON files in and out: every failure is one line that names the file, and no file is read without bound."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import ClearheadError, quoted, shown

MAX_JSON_BYTES = 64 * 2**20


def read_text(path: Path) -> str:
    """The UTF-8 text of one file."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ClearheadError(
            f"{path} is not UTF-8 text (byte {error.start}): it is broken or another kind of file"
        ) from None
    except OSError as error:
        raise ClearheadError(f"{path} can't be read: {error.strerror or error}") from None


def read_json(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds."""
    label = shown(path)
    if not path.is_file():
        raise ClearheadError(f"{label} is missing or is not a file")
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_JSON_BYTES:
                raise ClearheadError(
                    f"{label} has {size:,} bytes; a JSON file of more than {MAX_JSON_BYTES:,} is refused"
                )
            raw = file.read(size)
    except OSError as error:
        raise ClearheadError(f"{label} can't be read: {shown(error.strerror)}") from error
    return parse_object(raw, label)


def parse_object(raw: bytes, label: str) -> dict[str, Any]:
    """The JSON object in `raw`; `label` names it in errors. A key that appears twice is an error, not a choice."""
    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=_once_each)
    except RecursionError:
        raise ClearheadError(f"{label} is nested too deeply to be read") from None
    except ValueError as error:
        raise ClearheadError(f"{label} is not valid JSON: {shown(error)}") from None
    if not isinstance(value, dict):
        raise ClearheadError(f"{label} must hold a JSON object, not a {type(value).__name__}")
    return value


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {quoted(key)} appears twice")
        result[key] = value
    return result


def read_optional_json(path: Path) -> dict[str, Any]:
    """The same, or an empty object where there is no such file."""
    return read_json(path) if path.exists() else {}


def write_text(path: Path, text: str) -> None:
    """Write one file, making its folder where there is none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ClearheadError(f"{path} can't be written: {error.strerror or error}") from None


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write one JSON object as a person would read it."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Put the file's name before what is found to be wrong in it."""
    try:
        yield
    except ClearheadError as error:
        raise ClearheadError(f"{file}: {error}") from None
