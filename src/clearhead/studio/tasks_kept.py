"""Opened tasks: the data of runs that are looked at, read once. The ones used last are kept."""

import threading
from collections import OrderedDict

from ..errors import ClearheadError
from ..train.loop import Run
from ..train.task import Task

KEPT = 2  # a task holds its data in memory


class Tasks:
    def __init__(self) -> None:
        self._kept: OrderedDict[str, Task] = OrderedDict()
        self._steps: dict[str, int | None] = {}
        self._lock, self._opening = threading.Lock(), threading.Lock()

    def open(self, run: Run) -> Task:
        """The run's task, with its data read; one at a time."""
        key = run.fingerprint
        with self._opening:
            task = self._kept.get(key)
            if task is None:
                task = self._kept[key] = run.spec.open()
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            self._steps[key] = run.settings.updates(task.batches_per_epoch(run.settings.batching))
            return task

    def steps(self, run: Run) -> int | None:
        """How many updates a run makes. Where that depends on the data, it is read aside: None until that is done."""
        if run.settings.steps is not None:
            return run.settings.steps
        key = run.fingerprint
        with self._lock:
            if key not in self._steps:
                self._steps[key] = None
                threading.Thread(target=self._count, args=(run,), daemon=True).start()
            return self._steps[key]

    def _count(self, run: Run) -> None:
        try:
            self.open(run)
        except (ClearheadError, OSError):
            return  # the job that needs the data says what is wrong with it
