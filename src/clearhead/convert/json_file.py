"""JSON that other people wrote: one object, or a one-line error; never unbounded memory or depth."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import ClearheadError

MAX_JSON_BYTES = 16 * 2**20


def shown(text: object, limit: int = 240) -> str:
    """`text` made fit for a one-line message: what can't be printed is escaped, the middle of a long one is cut."""
    line = str(text)
    if len(line) > limit:
        line = f"{line[: limit // 2]}...{line[-limit // 2 :]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def quoted(name: object) -> str:
    """A tensor's or key's name between quotes, fit for a one-line message."""
    return f"'{shown(name, 120)}'"


def some(names: Sequence[object]) -> str:
    """The first few of many names, for a one-line message."""
    return ", ".join(map(quoted, names[:3])) + (", ..." if len(names) > 3 else "")


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
