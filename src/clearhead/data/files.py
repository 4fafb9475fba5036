"""Small text files in and out, with every failure told in one line that names the file."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clearhead.errors import ClearheadError


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
    """The JSON object in one file; no name found inside it is followed."""
    text = read_text(path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ClearheadError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise ClearheadError(f"{path} holds a JSON {type(content).__name__}, an object was expected")
    return content


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
