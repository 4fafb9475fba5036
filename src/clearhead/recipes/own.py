"""A run for a model and data that a user names: what the data is decides the task, the rest is sensible defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..convert import open_weights
from ..data.text_files import all_facts
from ..errors import ClearheadError, near
from ..models import names
from ..models.registry import find
from ..runs.folder import config_of
from ..runs.places import located
from ..train.loop import Run
from ..train.optimiser import Optimiser
from ..train.records import spec_class
from ..train.settings import Settings
from ..train.task import Batching

TABLES = (".csv", ".tsv", ".jsonl")
FAMILIES = {  # which tasks a family learns, by what the data is
    "vit": {"pictures": "pictures"},
    "bert": {"labelled": "labelled", "scored": "labelled", "questions": "questions", "running": "masked"},
    "gpt": {"running": "language", "letters": "language"},
    "t5": {"parallel": "translation", "running": "corruption"},
    "transformer": {"parallel": "translation"},
}


@dataclass(frozen=True)
class Habit:
    """What a task is trained with unless the user says otherwise: from scratch, and from a checkpoint."""

    batch: int
    rate: float
    tuning_rate: float
    epochs: float
    tuning_epochs: float
    warmup: int = 100


HABITS = {
    "pictures": Habit(128, 1e-3, 1e-4, 30, 5),
    "labelled": Habit(32, 5e-4, 3e-5, 5, 3),
    "questions": Habit(16, 3e-4, 3e-5, 3, 2),
    "language": Habit(32, 1e-3, 1e-4, 3, 1),
    "masked": Habit(32, 5e-4, 5e-5, 5, 1),
    "translation": Habit(4096, 1e-3, 1e-4, 10, 3, 400),
    "corruption": Habit(32, 1e-3, 3e-4, 5, 1),
}


def own_run(model: str, data: Sequence[str], folder: str | None = None) -> Run:
    """The run that `clearhead train MODEL DATA` means, before key=value changes."""
    new = model in names() and not Path(model).exists()
    family = find(model)[0].name if new else _family_of(model)
    kind, given = recognised(data)
    tasks = FAMILIES.get(family, {})
    if kind not in tasks:
        able = " or ".join(sorted(name for name, known in FAMILIES.items() if kind in known))
        raise ClearheadError(
            f"{' '.join(data)} holds {SPOKEN[kind]}: that is for {able} models, and {model} is {family}"
        )
    task = tasks[kind]
    habit = HABITS[task]
    make: Any = spec_class(task)
    spec = make(model=model, folder=folder, **given)
    settings = Settings(
        epochs=habit.epochs if new else habit.tuning_epochs,
        batching=Batching(size=habit.batch),
        optimiser=Optimiser(rate=habit.rate if new else habit.tuning_rate, weight_decay=0.05),
        warmup=habit.warmup,
        **_changes(task, new),
    )
    return Run(f"{Path(model).name}-{Path(data[0]).stem}", spec, settings)


SPOKEN = {
    "pictures": "pictures by class",
    "labelled": "labelled texts",
    "scored": "texts with scores",
    "parallel": "parallel texts",
    "running": "running text",
    "questions": "questions and answers",
    "letters": "the letters game",
}


def recognised(data: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """What the data is, and how a task is told of it."""
    if not data:
        raise ClearheadError("name the data: a set, a folder of pictures, a table, a text, or two parallel texts")
    first = data[0]
    if len(data) == 1 and first in all_facts():
        kind = "letters" if first == "letters" else str(all_facts()[first]["kind"])
        return kind, {"data": first}
    for place in data:
        if not Path(place).exists():
            raise ClearheadError(f"there is no set, file or folder '{place}'{near(place, all_facts())}")
    if len(data) == 1 and Path(first).is_dir() and _holds_folders(Path(first)):
        return "pictures", {"data": first}
    if len(data) == 1 and Path(first).suffix.lower() in TABLES:
        return "labelled", {"data": first}
    if len(data) == 2 and all(Path(place).is_file() for place in data):
        return "parallel", {"data": tuple(data)}
    return "running", {"data": first if len(data) == 1 else tuple(data)}


def _holds_folders(place: Path) -> bool:
    return any(inside.is_dir() for inside in place.iterdir())


def _family_of(model: str) -> str:
    place = located(model)
    if not place.exists():
        raise ClearheadError(f"there is no model or folder '{model}'{near(model, names())}")
    return config_of(place, open_weights(place))[0].name


def _changes(task: str, new: bool) -> Mapping[str, Any]:
    if task == "pictures":
        return {"drop_path": 0.1 if new else 0.0}
    return {"schedule": "inverse-sqrt"} if task == "translation" and new else {}
