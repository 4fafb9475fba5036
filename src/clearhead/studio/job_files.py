"""What a job's files say: how far it is, its metrics from a place on, the end of its log, why it failed."""

import json
import re
from pathlib import Path
from typing import Any

from ..train.metrics import NAME as METRICS
from .training_schema import MetricLines

TAIL = 1 << 14  # bytes of a log or of metrics that are looked at from the end
LINES = 40  # of a log that are told
MOST = 1 << 20  # bytes of metrics in one answer
OURS = "clearhead: "  # what the command line begins a mistake's line with
RAISED = re.compile(r"([A-Za-z_][\w.]*)(: .*)?")  # how a traceback ends
TRACEBACK = "Traceback (most recent call last)"


def last_figures(folder: Path, since: float = 0.0) -> dict[str, float | None]:
    """The newest whole line of metrics with its step; nothing where none was written since then."""
    file = folder / METRICS
    try:
        if file.stat().st_mtime < since:
            return {}
        lines = _end(file).split("\n")[:-1]
    except OSError:
        return {}
    parsed = (_parsed(line) for line in reversed(lines))
    return next((line for line in parsed if line is not None), {})


def metric_lines(folder: Path, after: int, mark: str | None, sitting: str) -> MetricLines:
    """Whole lines behind the byte `after`. The file is another one when a run goes on: then all of it is told again.

    sitting  changes with every start of the run, for a new file may have an old one's number
    """
    file = folder / METRICS
    try:
        with file.open("rb") as opened:
            here = f"{sitting}.{file.stat().st_ino}"
            follows = after == 0 or (mark == here and _ends_a_line(opened, after))
            start = after if follows else 0
            opened.seek(start)
            raw = opened.read(MOST)
            behind = bool(opened.read(1))
    except FileNotFoundError:
        return MetricLines(lines=[], next=0, mark=f"{sitting}.", again=after > 0, more=False)
    whole = raw[: raw.rfind(b"\n") + 1]
    lines = [line for text in whole.decode(errors="replace").split("\n") if (line := _parsed(text)) is not None]
    again = not follows or (after == 0 and mark not in (None, here))
    return MetricLines(lines=lines, next=start + len(whole), mark=here, again=again, more=behind and bool(whole))


def log_lines(file: Path, count: int = LINES) -> list[str]:
    """The last lines of a log; of a line that was drawn over and over, the last state."""
    try:
        text = _end(file)
    except OSError:
        return []
    lines = [line.rpartition("\r")[2].rstrip() for line in text.split("\n")]
    return [line for line in lines if line][-count:]


def failure(lines: list[str]) -> str | None:
    """Why it failed, as the log says it at its end: our own line, or what a traceback ends with."""
    for place in range(len(lines) - 1, -1, -1):
        if lines[place].startswith(OURS):
            return lines[place].removeprefix(OURS)
        if lines[place].startswith(TRACEBACK):
            raised = next((line for line in reversed(lines[place:]) if RAISED.fullmatch(line)), "no more is known")
            return None if raised.startswith("KeyboardInterrupt") else f"something went wrong inside: {raised}"
    return None


def _end(file: Path) -> str:
    with file.open("rb") as opened:
        size = opened.seek(0, 2)
        opened.seek(max(0, size - TAIL))
        return opened.read().decode(errors="replace")


def _ends_a_line(opened: Any, place: int) -> bool:
    opened.seek(place - 1)
    return opened.read(1) == b"\n"


def _parsed(line: str) -> dict[str, float | None] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    if not isinstance(value, dict) or not isinstance(value.get("step"), int):
        return None
    return {name: one for name, one in value.items() if one is None or isinstance(one, int | float)}
