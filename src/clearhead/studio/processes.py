"""Whether a process that was started is still the one that runs: a number alone may belong to another one by now."""

import os
import subprocess
from pathlib import Path

from ..errors import ClearheadError

PROC = Path("/proc")
STARTED = 19  # of what stands behind the name in /proc/PID/stat: when it began, in ticks since the machine did
DEAD = ("Z", "X", "x")


def mark(pid: int) -> str | None:
    """What tells this process from every other that had or will have its number; None where it has ended."""
    if (PROC / "self" / "stat").exists():
        return _by_proc(pid)
    return _by_ps(pid)


def refuse_where_unknown() -> None:
    """Where processes can't be told apart, none is started that would have to be found again."""
    if mark(os.getpid()) is None:
        raise ClearheadError("jobs can't be followed on this system: train at the terminal, with `clearhead train`")


def _by_proc(pid: int) -> str | None:
    try:
        text = (PROC / str(pid) / "stat").read_text()
        machine = (PROC / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold spaces and brackets
    return None if fields[0] in DEAD else f"{machine} {fields[STARTED]}"


def _by_ps(pid: int) -> str | None:
    try:
        told = subprocess.run(
            ["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    state, _, began = told.stdout.strip().partition(" ")
    return None if not began or state.startswith(DEAD) else began.strip()
