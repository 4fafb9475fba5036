"""Starting what a user names, on the command line, in Python and in the studio alike: find the run, check its folder,
train its stages."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..data.text_files import all_facts
from ..errors import ClearheadError, near
from ..models import names
from ..runs.places import CARRIED, located
from ..train.loop import Outcome, Run, Watch
from ..train.loop import train as train_run
from ..train.records import NAME, read_run, with_keys, write_run
from ..train.task import Task
from . import RECIPES, recipe
from .own import own_run

FIRST = "first"  # the folder of a run's first stage, in its own


def named_run(
    what: str, data: Sequence[str] = (), keys: Sequence[str] = (), folder: str | None = None, quick: bool = False
) -> Run:
    """A recipe's run, or that of a model on data; with `key=value` changes. `first.KEY=value` changes a first stage."""
    if what in RECIPES:
        if data:
            raise ClearheadError(f"the recipe {what} has its own data: {data[0]!r} is not key=value")
        run = recipe(what, quick)
    elif quick:
        raise ClearheadError(f"--quick is for recipes, and {what!r} is none")
    elif what in names() or located(what).exists():
        run = own_run(what, data, folder)
    else:
        raise ClearheadError(f"there is no recipe or model '{what}'{near(what, [*RECIPES, *names(), *CARRIED])}")
    return changed(run, [*where(run, folder), *keys])


def where(run: Run, folder: str | None) -> list[str]:
    """The key that says where named sets lie; none for sets that come with the package."""
    data = getattr(run.spec, "data", None)
    embedded = isinstance(data, str) and data in all_facts() and not all_facts()[data]["folders"]
    return [] if folder is None or embedded else [f"folder={folder}"]


def changed(run: Run, keys: Sequence[str]) -> Run:
    """`key=value` changes of the run, and those of its first stage; both have the same seed and folder of data."""
    before = [key.removeprefix(f"{FIRST}.") for key in keys if key.startswith(f"{FIRST}.")]
    own = [key for key in keys if not key.startswith(f"{FIRST}.")]
    if run.first is None:
        if before:
            raise ClearheadError(f"{run.name} has no first stage: '{FIRST}.{before[0]}' changes nothing")
        return with_keys(run, own)
    if model := next((key for key in own if key.startswith("model=")), None):
        raise ClearheadError(f"{run.name} goes on with its first stage's model: say {FIRST}.{model}")
    shared = [key for key in own if key.startswith(("seed=", "folder="))]
    return replace(with_keys(run, own), first=with_keys(run.first, [*shared, *before]))


def claim(run: Run, place: Path) -> None:
    """Mark a folder as this run's, before its first stage is trained. One with another run in it is not touched.

    A run that never began, which is all that a mistake leaves, is no such run. Of several processes the first one does
    it.
    """
    if os.environ.get("RANK", "0") != "0":
        return
    final = run if run.first is None else run.behind(place / FIRST)
    if place.exists() and any(entry.name != NAME for entry in place.iterdir()):
        if not (place / NAME).exists():
            raise ClearheadError(f"{place} is not empty and holds no run: give another folder with --out")
        if read_run(place).fingerprint != final.fingerprint:
            raise ClearheadError(f"{place} holds another run: give another folder with --out, or remove it")
    write_run(final, place)


def train(
    what: str | Run,
    *data: str,
    out: str | Path | None = None,
    quick: bool = False,
    folder: str | None = None,
    watch: Watch | None = None,
    **changes: Any,
) -> Outcome:
    """Train a recipe, or a model on data, as `clearhead train` does; the same call again goes on with it.

    changes  fields by name, such as `epochs=3`; `model__width=64` for `model.width`
    """
    keys = [f"{name.replace('__', '.')}={_written(value)}" for name, value in changes.items()]
    run = changed(what, keys) if isinstance(what, Run) else named_run(what, data, keys, folder, quick)
    place = Path(out) if out is not None else Path("runs") / run.name
    outcome: Outcome | None = None
    for stage, at, task in stages(run, place):
        outcome = train_run(stage, at, watch, task)
        if outcome.interrupted:
            break
    assert outcome is not None  # every run has a stage
    return outcome


def stages(run: Run, place: Path) -> Iterator[tuple[Run, Path, Task]]:
    """What a run is made of, the first one first: each when the one before is trained, with its folder and its task.

    Where data are missing no folder is made.
    """
    chain = [(run, place)]
    while (before := chain[-1][0].first) is not None:
        chain.append((before, chain[-1][1] / FIRST))
    task = chain[-1][0].spec.open()
    for stage, at in chain:
        claim(stage, at)
    yield *chain.pop(), task
    for stage, at in reversed(chain):
        own = stage.behind(at / FIRST)
        yield own, at, own.spec.open()


def _written(value: Any) -> str:
    """A value as `key=value` says it."""
    return ",".join(map(_written, value)) + "," if isinstance(value, tuple | list) else str(value)
