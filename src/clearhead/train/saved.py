"""The saved state of a run: all that the next update depends on, so that a killed run goes on as if it had not been.

    state/00000120/tensors.safetensors   weights, the optimiser's memory, the running average
    state/00000120/state.json            the number of updates made, the best figure so far, sizes and checksum

A state is written aside and renamed when it is whole, and the one before it is kept: whatever moment the process dies
at, one of them is good. What is truncated, or belongs to another run, is refused and said; nothing here is a pickle.
"""

import json
import logging
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from ..convert import open_weights, write_safetensors
from ..errors import ClearheadError
from ..files import read_json

KEPT = 2
TENSORS, RECORD = "tensors.safetensors", "state.json"
CHUNK = 1 << 24

log = logging.getLogger("clearhead")


@dataclass
class Saved:
    """tensors: by part ("model", "optimiser", "average") and name; values: plain JSON."""

    step: int
    tensors: dict[str, dict[str, Tensor]]
    values: dict[str, Any] = field(default_factory=dict)


class States:
    """The states of one run's folder. `run` is the run's fingerprint: another run's states are not its own."""

    def __init__(self, folder: Path, run: str) -> None:
        self.folder, self.run = folder / "state", run

    def save(self, saved: Saved) -> Path:
        """Write aside, rename, and only then forget the oldest. A state that is there already stays as it is."""
        place = self.folder / f"{saved.step:08d}"
        if self._problem(place) is None:
            return place
        aside = self.folder / f".{place.name}.part"
        try:
            shutil.rmtree(aside, ignore_errors=True)
            shutil.rmtree(place, ignore_errors=True)
            aside.mkdir(parents=True)
            flat = {f"{part}/{name}": tensor for part, named in saved.tensors.items() for name, tensor in named.items()}
            write_safetensors(aside / TENSORS, flat, {"format": "pt"})
            size, checksum = (aside / TENSORS).stat().st_size, _checksum(aside / TENSORS)
            record = {"run": self.run, "step": saved.step, "bytes": size, "crc32": checksum, "values": saved.values}
            (aside / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            aside.rename(place)
        except (OSError, ClearheadError) as problem:
            shutil.rmtree(aside, ignore_errors=True)
            reason = problem.strerror if isinstance(problem, OSError) else problem
            raise ClearheadError(
                f"the state of step {saved.step} can't be written: {reason}; the one before it is intact"
            ) from None
        for old in self.found()[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)
        return place

    def found(self) -> list[Path]:
        """The folders of states, oldest first, whole or not."""
        if not self.folder.is_dir():
            return []
        return sorted(place for place in self.folder.iterdir() if place.name.isdecimal() and place.is_dir())

    def newest(self) -> Saved | None:
        """The last good state; what can't be used is named, and the one before it is tried."""
        for place in reversed(self.found()):
            problem = self._problem(place)
            if problem is None:
                return self._read(place)
            log.warning("%s: %s: the state before it is used", place, problem)
        return None

    def _problem(self, place: Path) -> str | None:
        """Why a state can't be used, or None."""
        try:
            record = read_json(place / RECORD)
            size = (place / TENSORS).stat().st_size
        except (ClearheadError, OSError) as problem:
            return str(problem)
        if record.get("run") != self.run:
            return "it belongs to another run"
        if size != record.get("bytes"):
            return f"{TENSORS} has {size:,} bytes, not {record.get('bytes')}"
        if _checksum(place / TENSORS) != record.get("crc32"):
            return f"{TENSORS} is damaged"
        return None

    def _read(self, place: Path) -> Saved:
        record = read_json(place / RECORD)
        tensors: dict[str, dict[str, Tensor]] = {}
        weights: Mapping[str, Tensor] = open_weights(place / TENSORS)
        for key in weights:
            part, _, name = key.partition("/")
            tensors.setdefault(part, {})[name] = weights[key].clone()
        return Saved(int(record["step"]), tensors, record["values"])


def _checksum(file: Path) -> int:
    value = 0
    with file.open("rb") as opened:
        while chunk := opened.read(CHUNK):
            value = zlib.crc32(chunk, value)
    return value
