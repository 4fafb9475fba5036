"""A job as a folder: `.jobs/NAME/job.json` below the folder of runs, and a log for every time that it was started.

Beside the run's own folder, not in it: a run that never came to have one has a record all the same.
"""

import json
import os
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import ClearheadError, shown
from ..files import read_json

FOLDER = ".jobs"
RECORD = "job.json"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
KINDS = {"name": str, "recipe": str, "quick": bool, "pid": int, "mark": str, "starts": int, "stopping": bool}


@dataclass(frozen=True)
class Record:
    """pid, mark: its process, see processes.py; starts: how often it was started; stopping: it was told to end."""

    name: str
    recipe: str
    changes: tuple[str, ...]
    quick: bool
    pid: int
    mark: str
    started: float
    starts: int = 1
    stopping: bool = False

    def changed(self, **what: Any) -> "Record":
        return replace(self, **what)


def check_name(name: str) -> str:
    if NAME.fullmatch(name) is None:
        raise ClearheadError(f"'{shown(name, 60)}' can't be a run's name: a to z, 0 to 9 and dashes, at most 63")
    return name


def log_file(root: Path, record: Record) -> Path:
    return root / FOLDER / record.name / f"log-{record.starts}.txt"


def write_record(root: Path, record: Record) -> None:
    """Aside and renamed: whoever reads it meanwhile finds the old one or the new one, whole."""
    folder = root / FOLDER / record.name
    aside = folder / f".{RECORD}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps(asdict(record), indent=1) + "\n", encoding="utf-8")
        os.replace(aside, folder / RECORD)
    except OSError as problem:
        raise ClearheadError(f"{folder} can't be written: {problem.strerror}") from None


def read_record(root: Path, name: str) -> Record | None:
    """The job of this name; None where there is none, or where its record is broken or another's."""
    file = root / FOLDER / name / RECORD
    if NAME.fullmatch(name) is None or not file.is_file():
        return None
    try:
        values = read_json(file)
    except ClearheadError:
        return None
    good = all(type(values.get(key)) is kind for key, kind in KINDS.items()) and values["name"] == name
    changes, started = values.get("changes"), values.get("started")
    good = good and isinstance(changes, list) and all(isinstance(one, str) for one in changes)
    if not good or not isinstance(started, int | float) or set(values) != {*KINDS, "changes", "started"}:
        return None
    return Record(**{**values, "changes": tuple(changes or ())})


def read_records(root: Path) -> list[Record]:
    """Every job, the one that was started last first."""
    place = root / FOLDER
    names = [inside.name for inside in place.iterdir()] if place.is_dir() else []
    found = (read_record(root, name) for name in names)
    return sorted((record for record in found if record is not None), key=lambda record: -record.started)
