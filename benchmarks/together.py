"""Many commands within a given time: those of a stage side by side on one GPU, the stages one behind the other.

    python -m benchmarks.together PLAN FOLDER --seconds 560 [--at-once 4] [--share] [--pack FOLDER] [--json]

A plan is a text file. A line `name: train RECIPE key=value ...` trains into FOLDER/name, any other `name: MODULE ...`
is what Python's -m runs; what it says goes to FOLDER/name.log. An empty line ends a stage, `#` begins a comment. Behind
a line `*: words` all lines begin with these words, until another says otherwise.
Of a stage so many run `--at-once`, in the plan's order, all unless given: while one compiles others keep the GPU busy,
and where the time is too short the last of them are missing, not all. Once the time is over, all that still runs is
ended and what comes behind it is not started. Told in the end are everyone's end and last figures or words; of a run
that was cut off how far it came. `--share` lets kernels of different processes run at once (CUDA's multi-process
service): there one that is killed takes all with it, so none is killed before the time is over. `--pack` puts what was
trained into NAME.tgz, without the states to go on from.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from clearhead.errors import ClearheadError

from . import table

LINE = re.compile(r"(?P<name>\*|[\w.-]+):(?P<words>( .*)?)")
ALL = "*"
LOOK_EVERY = 0.2  # seconds
GRACE = 5.0  # seconds between asking a process to end and ending it
LAST = 15  # lines of a log
LEFT_OUT = ("state", "events", "report.html")
HEADER = ["name", "stage", "end", "seconds"]
CUT_OFF, NOT_STARTED = "cut off", "not started"

Stages = list[dict[str, list[str]]]


@dataclass
class Outcome:
    """`end`: the exit code, CUT_OFF or NOT_STARTED; `last`: the last words or figures."""

    name: str
    stage: int
    end: int | str = NOT_STARTED
    seconds: float = 0.0
    last: str = ""


def stages_of(plan: str) -> Stages:
    stages, names, before = Stages([{}]), set[str](), list[str]()
    for number, line in enumerate(plan.splitlines(), 1):
        text = line.split("#")[0].strip()
        found = LINE.fullmatch(text)
        if found and found["name"] == ALL:
            before = _split(found["words"], number)
        elif found and found["name"] not in names and (words := before + _split(found["words"], number)):
            names.add(found["name"])
            stages[-1][found["name"]] = words
        elif text:
            reason = f"{found['name']!r} is there before" if found and found["name"] in names else "no `name: words`"
            raise ClearheadError(f"line {number} of the plan: {reason}")
        elif not line.strip() and stages[-1]:
            stages.append({})
    stages = [stage for stage in stages if stage]
    if not stages:
        raise ClearheadError("the plan is empty")
    return stages


def _split(words: str, number: int) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError as problem:
        raise ClearheadError(f"line {number} of the plan: {problem}") from None


def command(name: str, words: Sequence[str], folder: Path) -> list[str]:
    if words[0] == "train":
        return [sys.executable, "-m", "clearhead", *words, "--json", "--out", str(folder / name)]
    return [sys.executable, "-m", *words]


def run(stages: Stages, folder: Path, seconds: float, at_once: int, shared: Mapping[str, str]) -> list[Outcome]:
    """All outcomes in the order of the plan."""
    outcomes = [Outcome(name, stage) for stage, members in enumerate(stages, 1) for name in members]
    by_name, ends = {outcome.name: outcome for outcome in outcomes}, time.monotonic() + seconds
    for members in stages:
        if time.monotonic() >= ends:
            break
        _run_stage(members, folder, ends, at_once, shared, by_name)
    for outcome in outcomes:
        outcome.last = last_words(folder, outcome.name)
    return outcomes


def _run_stage(
    members: Mapping[str, list[str]],
    folder: Path,
    ends: float,
    at_once: int,
    shared: Mapping[str, str],
    told: dict[str, Outcome],
) -> None:
    waiting, running, began = list(members), dict[str, subprocess.Popen[bytes]](), dict[str, float]()
    try:
        while (waiting or running) and time.monotonic() < ends:
            while waiting and len(running) < at_once:
                name = waiting.pop(0)
                began[name] = time.monotonic()
                with (folder / f"{name}.log").open("wb") as log:
                    words, known = command(name, members[name], folder), os.environ | shared
                    running[name] = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=known)
            time.sleep(LOOK_EVERY)
            for name in [name for name, process in running.items() if process.poll() is not None]:
                code, spent = running.pop(name).returncode, time.monotonic() - began[name]
                told[name].end, told[name].seconds = code, spent
                print(f"{name}: {code} after {spent:.0f} s", file=sys.stderr, flush=True)
    finally:
        for name in running:
            told[name].end, told[name].seconds = CUT_OFF, time.monotonic() - began[name]
        _end(list(running.values()))


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    until = time.monotonic() + GRACE
    for process in processes:
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def last_words(folder: Path, name: str) -> str:
    """The figures of a run that came to its end; else its last lines of metrics, or the last lines of its log."""
    log, metrics = folder / f"{name}.log", folder / name / "metrics.jsonl"
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    if lines and lines[-1].startswith("{"):
        return lines[-1]
    found = metrics.read_text().splitlines() if metrics.exists() else []
    validated = [line for line in found if '"valid/' in line][-1:]
    return "\n".join([*validated, *found[-1:]] or lines[-LAST:])


def packed(folder: Path, name: str, place: Path) -> None:
    def kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if Path(entry.name).name in LEFT_OUT else entry

    if (folder / name).is_dir():
        with tarfile.open(place / f"{name}.tgz", "w:gz") as archive:
            archive.add(folder / name, name, filter=kept)


@contextmanager
def shared_service(folder: Path) -> Iterator[dict[str, str]]:
    """CUDA's multi-process service for as long as it is needed; gives what its clients have to know."""
    program = shutil.which("nvidia-cuda-mps-control")
    if program is None:
        raise ClearheadError("--share needs nvidia-cuda-mps-control, which is not on this machine")
    known = {f"CUDA_MPS_{what}_DIRECTORY": str(folder / f"mps-{what.lower()}") for what in ("PIPE", "LOG")}
    for place in known.values():
        Path(place).mkdir(exist_ok=True)
    if subprocess.run([program, "-d"], env=os.environ | known).returncode:
        raise ClearheadError(f"--share: {program} did not start")
    try:
        yield known
    finally:
        subprocess.run([program], input=b"quit\n", env=os.environ | known, stdout=subprocess.DEVNULL)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.together", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("plan", type=Path)
    parser.add_argument("folder", type=Path, help="new: for what is trained and said")
    parser.add_argument("--seconds", type=float, required=True, help="for all of it")
    parser.add_argument("--at-once", type=int, default=sys.maxsize, metavar="N", help="of a stage, all unless given")
    parser.add_argument("--share", action="store_true", help="processes share the GPU at once")
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="put what was trained there, as NAME.tgz")
    parser.add_argument("--json", action="store_true", help="the outcomes as one JSON array")
    given = parser.parse_args(words)
    try:
        if given.at_once < 1:
            raise ClearheadError(f"--at-once must be at least 1, not {given.at_once}")
        stages = stages_of(given.plan.read_text(encoding="utf-8"))
        if given.folder.exists():
            raise ClearheadError(f"{given.folder} is there already: name a new folder")
        given.folder.mkdir(parents=True)
        with shared_service(given.folder) if given.share else nullcontext({}) as shared:
            outcomes = run(stages, given.folder, given.seconds, given.at_once, shared)
        for outcome in outcomes if given.pack else []:
            given.pack.mkdir(parents=True, exist_ok=True)
            packed(given.folder, outcome.name, given.pack)
    except (ClearheadError, OSError) as problem:
        print(f"together: {problem}", file=sys.stderr)
        return 1
    if given.json:
        print(json.dumps([asdict(outcome) for outcome in outcomes]))
    else:
        for outcome in outcomes:
            print(f"{outcome.name}: {outcome.last}\n")
        print(table(HEADER, [_line(outcome) for outcome in outcomes]))
    return 0 if all(outcome.end == 0 for outcome in outcomes) else 1


def _line(outcome: Outcome) -> list[str]:
    return [outcome.name, str(outcome.stage), str(outcome.end), f"{outcome.seconds:.0f}"]


if __name__ == "__main__":
    sys.exit(main())
