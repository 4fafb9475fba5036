"""The saved state of a run: all that the next update depends on, so that a killed run goes on as if it had not been.

    state/00000120/tensors.safetensors   weights, the optimiser's memory, the running average (shard_files: in pieces)
    state/00000120/state.json            the number of updates made, the best figure so far, sizes and checksums

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

import torch
from torch import Tensor

from ..convert import open_weights, write_safetensors
from ..errors import ClearheadError, quoted
from ..files import read_json
from .ranks import Ranks

KEPT = 2
TENSORS, RECORD = "tensors.safetensors", "state.json"
CHUNK = 1 << 24
ALONE = Ranks(0, 1, torch.device("cpu"))

log = logging.getLogger("clearhead")


@dataclass
class Saved:
    """tensors: by part ("model", "optimiser", "average") and name; values: plain JSON."""

    step: int
    tensors: dict[str, dict[str, Tensor]]
    values: dict[str, Any] = field(default_factory=dict)


class States:
    """The states of one run's folder. `run` is the run's fingerprint: another run's states are not its own.

    Every process makes every call. The first one alone writes, unless the tensors are in pieces (`shard`): then each
    writes its own. Either form is read by any number of processes.
    """

    def __init__(self, folder: Path, run: str, here: Ranks = ALONE, *, shard: bool = False) -> None:
        self.folder, self.run, self.here, self.shard = folder / "state", run, here, shard

    def save(self, saved: Saved) -> None:
        """Write aside, rename, and only then forget the oldest. A state that is there already stays as it is."""
        place = self.folder / f"{saved.step:08d}"
        if self.here.any(self.here.first and self._problem(place) is None):
            return
        aside = self.folder / f".{place.name}.part"
        try:
            self._write(saved, place, aside)
        except (OSError, ClearheadError) as problem:
            shutil.rmtree(aside, ignore_errors=True)
            reason = problem.strerror if isinstance(problem, OSError) else problem
            raise ClearheadError(
                f"the state of step {saved.step} can't be written: {reason}; the one before it is intact"
            ) from None
        for old in self.found()[:-KEPT] if self.here.first else ():
            shutil.rmtree(old, ignore_errors=True)

    def _write(self, saved: Saved, place: Path, aside: Path) -> None:
        if self.here.first:
            shutil.rmtree(aside, ignore_errors=True)
            shutil.rmtree(place, ignore_errors=True)
            aside.mkdir(parents=True)
        flat = {f"{part}/{name}": tensor for part, named in saved.tensors.items() for name, tensor in named.items()}
        if self.shard:
            from .shard_files import write_shards

            self.here.wait()
            write_shards(aside, flat, self.here)
        elif self.here.first:
            write_safetensors(aside / TENSORS, flat, {"format": "pt"})
        if self.here.first:
            files = {file.name: {"bytes": file.stat().st_size, "crc32": _checksum(file)} for file in aside.iterdir()}
            record = {"run": self.run, "step": saved.step, "files": files, "values": saved.values}
            (aside / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            aside.rename(place)

    def found(self) -> list[Path]:
        """The folders of states, oldest first, whole or not."""
        if not self.folder.is_dir():
            return []
        return sorted(place for place in self.folder.iterdir() if place.name.isdecimal() and place.is_dir())

    def newest(self, weights: Mapping[str, Tensor]) -> Saved | None:
        """The last good state; what can't be used is named, and the one before it is tried.

        `weights` are the model's: what is sharded there is read in pieces.
        """
        chosen = self._chosen() if self.here.first else None
        name = int(self.here.agreed([-1 if chosen is None else int(chosen.name)])[0])
        if name < 0:
            return None
        place = self.folder / f"{name:08d}"
        if self.here.any(not (place / RECORD).exists()):
            raise ClearheadError(f"not every process can see {place}: all must share one folder")
        return self._read(place, weights)

    def _chosen(self) -> Path | None:
        for place in reversed(self.found()):
            problem = self._problem(place)
            if problem is None:
                return place
            log.warning("%s: %s: the state before it is used", place, problem)
        return None

    def _problem(self, place: Path) -> str | None:
        """Why a state can't be used, or None."""
        try:
            record = read_json(place / RECORD)
            if record.get("run") != self.run:
                return "it belongs to another run"
            files = record.get("files")
            if not isinstance(files, dict) or not files:
                return f"{RECORD} names no files"
            for name, expected in files.items():
                _check_file(place, name, expected)
            if TENSORS not in files:
                from .shard_files import open_shelf

                open_shelf(place)
        except (ClearheadError, OSError) as problem:
            return str(problem)
        return None

    def _read(self, place: Path, weights: Mapping[str, Tensor]) -> Saved:
        record = read_json(place / RECORD)
        if self.shard or not (place / TENSORS).exists():
            flat = self._read_pieces(place, weights)
        else:
            flat = {key: tensor.clone() for key, tensor in open_weights(place / TENSORS).items()}
        tensors: dict[str, dict[str, Tensor]] = {}
        for key, tensor in flat.items():
            part, _, name = key.partition("/")
            tensors.setdefault(part, {})[name] = tensor
        return Saved(int(record["step"]), tensors, record["values"])

    def _read_pieces(self, place: Path, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        from .shard_files import open_shelf, read_shards, whole_shelf

        shelf = whole_shelf(place / TENSORS) if (place / TENSORS).exists() else open_shelf(place)
        return read_shards(
            shelf, {key: weight for key in shelf.tensors if (weight := _of(key, weights)) is not None}, self.here
        )


def _of(key: str, weights: Mapping[str, Tensor]) -> Tensor | None:
    """The weight that a stored tensor goes with: `model/a.weight`, `average/a.weight`, `optimiser/a.weight.exp_avg`."""
    part, _, name = key.partition("/")
    return weights.get(name.rpartition(".")[0] if part == "optimiser" else name)


def _check_file(place: Path, name: str, expected: Any) -> None:
    if Path(name).name != name or not isinstance(expected, dict):
        raise ClearheadError(f"{RECORD} names {quoted(name)}, which is no file of a state")
    size = (place / name).stat().st_size
    if size != expected.get("bytes"):
        raise ClearheadError(f"{name} has {size:,} bytes, not {expected.get('bytes')}")
    if _checksum(place / name) != expected.get("crc32"):
        raise ClearheadError(f"{name} is damaged")


def _checksum(file: Path) -> int:
    value = 0
    with file.open("rb") as opened:
        while chunk := opened.read(CHUNK):
            value = zlib.crc32(chunk, value)
    return value
