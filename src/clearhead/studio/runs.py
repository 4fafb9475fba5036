"""All runs that can be compared: folders with a run.yaml, given or found, finished or not."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import ClearheadError, near, shown
from ..files import read_optional_json
from ..models import names
from ..models.registry import find
from ..report.run_files import read_lines
from ..train.loop import Run
from ..train.records import NAME, read_run
from .cards import figures
from .refusals import Unknown
from .shelf import Shelf
from .training_schema import CurveTold, RunCard, RunMetrics

DEEPEST = 3
POINTS = 500


class Runs:
    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf

    def places(self) -> dict[str, Path]:
        """Folders by name. A run with weights is called what its model is called; links are not followed."""
        found: dict[str, Path] = {}
        for entry in self.shelf.entries():
            if entry.place is not None and (entry.place / NAME).is_file() and not _is_stage(entry.place):
                found[entry.id] = entry.place
        known = {*found.values()}
        for place in _below(self.shelf.root):
            if place not in known:
                found[_free(place, found)] = place
        return found

    def folder(self, name: str) -> Path:
        places = self.places()
        if name not in places:
            raise Unknown(f"there is no run '{shown(name, 80)}' here{near(name, places)}: GET /api/runs lists them")
        return places[name]

    def cards(self) -> list[RunCard]:
        models = {entry.place: entry.id for entry in self.shelf.entries() if entry.place is not None}
        return [self._card(name, place, models.get(place)) for name, place in self.places().items()]

    def _card(self, name: str, place: Path, model: str | None) -> RunCard:
        plain: dict[str, Any] = {"name": name, "model": model, "folder": str(place)}
        try:
            run, result, lines = read_run(place), read_optional_json(place / "result.json"), read_lines(place)
        except (ClearheadError, OSError) as problem:
            return RunCard(**plain, run=place.name, finished=False, problem=str(problem), **NOTHING)
        steps = result.get("steps", lines[-1]["step"] if lines else None)
        seconds = result.get("seconds")
        return RunCard(
            **plain,
            run=run.name,
            family=self._family(run, model),
            task=run.spec.kind,
            data=_data(run),
            finished=bool(result),
            steps=steps if isinstance(steps, int) else None,
            seconds=float(seconds) if isinstance(seconds, int | float) and math.isfinite(seconds) else None,
            figures=figures(place),
            curves=sorted({name for line in lines for name in line if name != "step"}),
        )

    def _family(self, run: Run, model: str | None) -> str | None:
        if run.spec.model in names():
            return find(run.spec.model)[0].name
        return None if model is None else self.shelf.card(model).family

    def metrics(self, name: str, points: int = POINTS) -> RunMetrics:
        """Every figure over the steps, thinned to so many points; values that are no number are left out."""
        curves: dict[str, list[tuple[float, float]]] = {}
        for line in read_lines(self.folder(name)):
            for figure, value in line.items():
                if figure != "step" and isinstance(value, int | float) and math.isfinite(value):
                    curves.setdefault(figure, []).append((line["step"], value))
        return RunMetrics(name=name, curves={figure: thinned(curve, points) for figure, curve in curves.items()})


NOTHING: dict[str, Any] = {"family": None, "task": None, "data": None, "steps": None, "seconds": None}
NOTHING |= {"figures": {}, "curves": []}


def thinned(points: list[tuple[float, float]], most: int) -> CurveTold:
    """Means of so many neighbours that at most `most` points are left."""
    each = max(1, -(-len(points) // most))
    groups = (points[start : start + each] for start in range(0, len(points), each))
    means = [(sum(x for x, _ in some) / len(some), sum(y for _, y in some) / len(some)) for some in groups]
    return CurveTold(points=means, each=each)


def _below(root: Path | None, depth: int = DEEPEST) -> Iterator[Path]:
    if root is None or not root.is_dir():
        return
    try:
        inside = sorted(place for place in root.resolve().iterdir() if place.is_dir() and not place.is_symlink())
    except OSError:
        return
    for place in inside:
        if (place / NAME).is_file():
            yield place
        elif depth > 1 and not place.name.startswith("."):
            yield from _below(place, depth - 1)


def _is_stage(place: Path) -> bool:
    """Whether it is the first stage of the run around it."""
    return (place.parent / NAME).is_file()


def _free(place: Path, taken: dict[str, Path]) -> str:
    names = (place.name if number == 1 else f"{place.name}~{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def _data(run: Run) -> str | None:
    data = getattr(run.spec, "data", None)
    return ", ".join(data) if isinstance(data, tuple | list) else data
