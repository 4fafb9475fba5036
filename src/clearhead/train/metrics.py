"""What a run reports while it goes: a line of JSON for every few updates, and TensorBoard's files if it is there.

After an interruption the lines behind the state that the run goes on from are dropped: none is written twice.
"""

import importlib.util
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ClearheadError

NAME = "metrics.jsonl"


class Metrics:
    """Lines have a `step` and figures by name; those of a part are named `valid/accuracy`."""

    def __init__(self, folder: Path, step: int) -> None:
        """Go on behind `step`: later lines, and a last one that was cut short, are dropped."""
        self.file = folder / NAME
        kept = [line for line in _whole_lines(self.file) if json.loads(line)["step"] <= step]
        aside = self.file.with_name(f".{NAME}.part")
        try:
            aside.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
            aside.replace(self.file)
            self._stream = self.file.open("a", encoding="utf-8")
        except OSError as problem:
            raise ClearheadError(f"{self.file} can't be written: {problem.strerror}") from None
        self._board = _board(folder, step)

    @property
    def writes_events(self) -> bool:
        """Whether TensorBoard is installed, and its files are written too."""
        return self._board is not None

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        line = {"step": step, **{name: value if math.isfinite(value) else None for name, value in figures.items()}}
        try:
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()
        except OSError as problem:
            raise ClearheadError(f"{self.file} can't be written: {problem.strerror}") from None
        if self._board is not None:
            for name, value in figures.items():
                self._board.add_scalar(name, value, step)

    def close(self) -> None:
        self._stream.close()
        if self._board is not None:
            self._board.close()


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Every line of a run's metrics, oldest first."""
    return [json.loads(line) for line in _whole_lines(folder / NAME)]


def _whole_lines(file: Path) -> list[str]:
    """Lines that were written to their end; a kill may have cut the last one."""
    if not file.exists():
        return []
    lines = file.read_text(encoding="utf-8").split("\n")
    return [line for line in lines[:-1] if line.startswith("{") and line.endswith("}")]


def _board(folder: Path, step: int) -> Any:
    """TensorBoard's writer, where the package is installed. Events behind `step` are purged when it goes on."""
    if importlib.util.find_spec("tensorboard") is None:
        return None
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder / "events"), purge_step=step + 1)
