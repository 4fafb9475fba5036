"""Training from the page: each job is a `clearhead train` of its own, which needs neither page nor server to go on.

A job is found again by its record (job_records.py) and by the files of its run alone. Started are recipes and nothing
else, with changes that `clearhead train` would take, in folders below the one that holds runs; a change can't name
another place to read or write.
"""

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from .. import recipes
from ..errors import ClearheadError, near, shown
from ..recipes.start import FIRST, named_run
from ..train.loop import Run
from ..train.metrics import NAME as METRICS
from ..train.records import NAME as RUN
from ..train.records import read_run
from . import processes
from .job_files import failure, last_figures, log_lines, metric_lines
from .job_records import Record, check_name, log_file, read_record, read_records, write_record
from .refusals import Unknown
from .tasks_kept import Tasks
from .training_schema import Job, JobTold, JobWanted, MetricLines, RecipeCard, State

LIMIT = 1
LONGEST_CHANGE = 200
PLACES = ("model", "data", "folder", "cache", "valid", "test", "tests", "options")  # what may name files
ENDED = ("interrupted", "failed")


class Jobs:
    """root: the folder that holds runs; data: where named sets lie; limit: how many may run at a time."""

    def __init__(self, root: Path | None, data: Path | None = None, limit: int = LIMIT, tasks: Tasks | None = None):
        self._root, self.data, self.limit, self.tasks = root, data, limit, tasks or Tasks()
        self._lock = threading.Lock()
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def root(self) -> Path:
        if self._root is None:
            raise ClearheadError("this studio has no folder for runs: start it with `clearhead studio` in a folder")
        return self._root.resolve()

    # ---------------------------------------------------------------------------------------- what there is

    def listed(self) -> list[Job]:
        return [self._told(record) for record in self.records()]

    def records(self) -> list[Record]:
        return [] if self._root is None else read_records(self.root)

    def told(self, name: str) -> JobTold:
        record = self.record(name)
        return JobTold(**self._told(record).model_dump(), log=log_lines(log_file(self.root, record)))

    def record(self, name: str) -> Record:
        record = None if self._root is None else read_record(self.root, name)
        if record is None:
            raise Unknown(f"there is no job '{shown(name, 60)}': GET /api/jobs lists them")
        return record

    def metrics(self, name: str, after: int, mark: str | None, first: bool | None) -> MetricLines:
        """first: of the run's first stage; of the stage that it is in unless given."""
        record = self.record(name)
        place = self.stage(record)[1] if first is None else self.folder(record) / (FIRST if first else "")
        return metric_lines(place, after, mark, f"{record.starts}{place.name}")

    def trained(self, name: str) -> tuple[Run, Path]:
        """The run of the stage that a job is in, and its folder; as its run.yaml says it, once there is one."""
        record = self.record(name)
        stage, folder = self.stage(record)
        if (folder / RUN).is_file():
            return read_run(folder), folder
        run = self.run(record)
        return (run if stage is None else run.first or run), folder

    def refusal(self) -> str | None:
        """Why no job can be started now."""
        busy = [record.name for record in self.records() if self.alive(record)]
        if len(busy) < self.limit:
            return None
        at_once = "one job runs" if self.limit == 1 else f"{self.limit} jobs run"
        return f"{at_once} at a time, and {', '.join(busy)} is running: stop it, or wait until it is done"

    def folder(self, record: Record) -> Path:
        return self.root / record.name

    def run(self, record: Record) -> Run:
        """The run that a job trains, as it was asked for."""
        return wanted_run(record.recipe, record.changes, record.quick, self.data)

    def alive(self, record: Record) -> bool:
        child = self._children.get(record.pid)
        if child is not None and child.poll() is not None:
            self._children.pop(record.pid, None)
        return processes.mark(record.pid) == record.mark

    # ------------------------------------------------------------------------------------------- what is done

    def start(self, wanted: JobWanted) -> Record:
        wanted_run(wanted.recipe, wanted.changes, wanted.quick, self.data)
        with self._lock:
            self._refuse_if_busy()
            name = self._free_name(wanted)
            return self._launch(
                Record(name, wanted.recipe, tuple(wanted.changes), wanted.quick, pid=0, mark="", started=0.0)
            )

    def resume(self, name: str) -> Record:
        """Go on with a job that was interrupted, or try one again that failed: the same command does both."""
        with self._lock:
            record = self.record(name)
            state = self._told(record).state
            if state not in ENDED:
                raise ClearheadError(f"{name} is {state}: only a job that was interrupted, or failed, goes on")
            self.run(record)
            self._refuse_if_busy()
            return self._launch(record.changed(starts=record.starts + 1, stopping=False))

    def stop(self, name: str) -> Record:
        """Told once, a run saves its state behind the update that it is in, and ends; told again, it ends at once."""
        with self._lock:
            record = self.record(name)
            if not self.alive(record):
                raise ClearheadError(f"{name} is {self._told(record).state}: there is nothing to stop")
            try:
                os.kill(record.pid, signal.SIGTERM if record.stopping else signal.SIGINT)
            except ProcessLookupError:
                return record
            stopped = record.changed(stopping=True)
            write_record(self.root, stopped)
            return stopped

    def _refuse_if_busy(self) -> None:
        problem = self.refusal()
        if problem is not None:
            raise ClearheadError(problem)

    def _free_name(self, wanted: JobWanted) -> str:
        """The name that was asked for, or the recipe's with the first number that is free."""
        if wanted.name is not None:
            name = check_name(wanted.name)
            if self._taken(name):
                raise ClearheadError(f"there is a run or job '{name}' already: give another name, or go on with it")
            return name
        names = (wanted.recipe if number == 1 else f"{wanted.recipe}-{number}" for number in range(1, 10_000))
        return check_name(next(name for name in names if not self._taken(name)))

    def _taken(self, name: str) -> bool:
        return os.path.lexists(self.root / name) or read_record(self.root, name) is not None

    def _launch(self, record: Record) -> Record:
        """Start the process and write down which one it is."""
        processes.refuse_where_unknown()
        log = log_file(self.root, record)
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("wb") as written:
                child = subprocess.Popen(
                    [sys.executable, "-m", "clearhead", *self.words(record)],
                    stdin=subprocess.DEVNULL,
                    stdout=written,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env=_environment(),
                )
        except OSError as problem:
            raise ClearheadError(f"the job can't be started: {problem.strerror}") from None
        self._children[child.pid] = child
        started = record.changed(pid=child.pid, mark=processes.mark(child.pid) or "", started=time.time())
        write_record(self.root, started)
        return started

    def words(self, record: Record) -> list[str]:
        """What stands behind `clearhead`. Nothing behind `--` is read as an option."""
        data = [] if self.data is None else ["--data", str(self.data.resolve())]
        quick = ["--quick"] if record.quick else []
        out = ["--out", str(self.folder(record))]
        return ["train", *data, *quick, *out, "--", record.recipe, *record.changes]

    # -------------------------------------------------------------------------------------- what is told

    def _told(self, record: Record) -> Job:
        stage, place = self.stage(record)
        figures = last_figures(place)
        state, error = self._state(record)
        return Job(
            name=record.name,
            recipe=record.recipe,
            changes=list(record.changes),
            quick=record.quick,
            state=state,
            step=None if not figures else int(figures.pop("step") or 0),
            steps=self._steps(record, stage is not None),
            stage=stage,
            figures=figures,
            started=record.started,
            active=max(record.started, *map(_written, (place / METRICS, log_file(self.root, record)))),
            folder=str(self.folder(record)),
            command=self.command(record),
            model=None,
            error=error,
        )

    def _steps(self, record: Record, first: bool) -> int | None:
        """None where the run can't be told any more: its recipe has changed since."""
        try:
            run = self.run(record)
        except ClearheadError:
            return None
        return self.tasks.steps(run.first if first and run.first is not None else run)

    def _state(self, record: Record) -> tuple[State, str | None]:
        folder = self.folder(record)
        if self.alive(record):
            if record.stopping:
                return "stopping", None
            since = record.started
            begun = last_figures(folder, since) or last_figures(folder / FIRST, since)
            return ("running" if begun else "starting"), None
        problem = failure(log_lines(log_file(self.root, record)))
        if (folder / "result.json").is_file():
            return "finished", problem
        return ("interrupted", None) if problem is None else ("failed", problem)

    def stage(self, record: Record) -> tuple[Literal["first"] | None, Path]:
        """`first` until the run's own part has begun, and the folder of the stage that it is in."""
        folder = self.folder(record)
        if (folder / FIRST).is_dir() and not (folder / METRICS).exists():
            return "first", folder / FIRST
        return None, folder

    def command(self, record: Record) -> str:
        """What does the same at the terminal."""
        folder, here = self.folder(record), Path.cwd()
        place = folder.relative_to(here) if folder.is_relative_to(here) else folder
        quick = ["--quick"] if record.quick else []
        return shlex.join(["clearhead", "train", record.recipe, *quick, *record.changes, "-o", str(place)])


def recipe_cards() -> list[RecipeCard]:
    return [
        RecipeCard(
            name=one.name,
            title=one.title,
            costs=one.costs,
            gives=one.gives,
            quick=one.has_quick,
            command=f"clearhead train {one.name}",
        )
        for one in recipes.RECIPES.values()
    ]


def wanted_run(recipe: str, changes: Sequence[str], quick: bool, data: Path | None) -> Run:
    """The run that is asked for, checked as the command line checks it; one that names other places is refused."""
    if recipe not in recipes.RECIPES:
        raise ClearheadError(f"there is no recipe '{shown(recipe, 60)}'{near(recipe, recipes.RECIPES)}")
    for change in changes:
        if len(change) > LONGEST_CHANGE or not change.isprintable():
            raise ClearheadError(f"'{shown(change, 60)}' is not key=value of at most {LONGEST_CHANGE} letters")
    folder = None if data is None else str(data.resolve())
    run, plain = (named_run(recipe, (), keys, folder, quick) for keys in (list(changes), []))
    stages = [(run.spec, plain.spec)]
    if run.first is not None and plain.first is not None:
        stages.append((run.first.spec, plain.first.spec))
    for made, own in stages:
        for place in PLACES:
            if getattr(made, place, None) != getattr(own, place, None):
                raise ClearheadError(f"'{place}' can't be changed from the page: use `clearhead train` for other data")
    return run


def _environment() -> dict[str, str]:
    """Ours, in which the same package is found, and lines are not broken at the width of a terminal."""
    package = Path(__file__).resolve().parents[2]
    paths = [] if package.name.endswith("-packages") else [str(package)]
    paths += [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    known = {"PYTHONPATH": os.pathsep.join(paths)} if paths else {}
    return {**os.environ, **known, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}


def _written(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
