"""Class names: what a folder calls its classes stays with the model through load, save and convert.

They stand in config.json: as `id2label` in Hugging Face's form and in ours, as `label_names` in timm's. `problem_type`
goes with them: it says whether a class excludes the others, or whether the one number is a measure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ClearheadError, shown
from ..files import read_optional_json
from ..models import Config, Model

PROBLEMS = ("single_label_classification", "multi_label_classification", "regression")
KEPT = "labels"  # the attribute of a model under which its names are kept


@dataclass(frozen=True)
class Labels:
    """The names of the classes, by number, and what kind of question they answer where that is known."""

    names: tuple[str, ...]
    problem: str | None = None

    def to_config(self) -> dict[str, Any]:
        """As config.json has them."""
        named = {"id2label": {str(number): name for number, name in enumerate(self.names)}}
        numbered = {"label2id": {name: number for number, name in enumerate(self.names)}}
        return named | numbered | ({"problem_type": self.problem} if self.problem else {})


def labels(model: Model) -> Labels:
    """The names of a model's classes, `LABEL_0` and so on where nobody named them; a model without any is refused."""
    kept = getattr(model, KEPT, None)
    count = class_count(model.config)
    if count is None:
        raise ClearheadError(f"a {model.family} model of this kind has no classes")
    return kept if kept is not None and len(kept.names) == count else Labels(_plain(count))


def name_classes(model: Model, names: Sequence[str], problem: str | None = None) -> None:
    """Say what a model's classes are called; `save` writes it."""
    count = class_count(model.config)
    if count != len(names):
        raise ClearheadError(f"the model has {count or 'no'} classes, and {len(names)} names were given")
    if problem is not None and problem not in PROBLEMS:
        raise ClearheadError(f"problem must be one of {', '.join(PROBLEMS)}, not {problem!r}")
    setattr(model, KEPT, Labels(tuple(names), problem))


def config_values(model: Model) -> dict[str, Any]:
    """What `save` adds to config.json: nothing where the classes have no names."""
    return labels(model).to_config() if getattr(model, KEPT, None) is not None else {}


def beside(place: Path, before: Config, after: Config) -> tuple[Labels | None, list[str]]:
    """The names that lie beside the weights, and what is wrong with them. New classes (`after`) have none."""
    values = read_optional_json((place if place.is_dir() else place.parent) / "config.json")
    return (None, []) if _kind(before) != _kind(after) else read_labels(values, class_count(after))


def read_labels(values: Mapping[str, Any], count: int | None) -> tuple[Labels | None, list[str]]:
    """The names in a config.json for `count` classes, and a note where it has some that don't fit."""
    said = values.get("id2label", values.get("label_names"))
    if count is None or not said:
        return None, []
    problem = values.get("problem_type")
    names = _by_number(said) if isinstance(said, dict) else said
    if not isinstance(names, list) or len(names) != count or not all(isinstance(n, str | int) for n in names):
        return None, [f"class names left out: they don't name classes 0 to {count - 1}: {shown(said, 80)}"]
    return Labels(tuple(map(str, names)), problem if problem in PROBLEMS else None), []


def class_count(config: Config) -> int | None:
    return getattr(config, "num_classes", None)


def _by_number(said: dict[str, Any]) -> list[Any]:
    """The names in their order; none at all where a number is missing."""
    numbers = [str(number) for number in range(len(said))]
    return [said[number] for number in numbers] if said.keys() == set(numbers) else []


def _kind(config: Config) -> tuple[Any, ...]:
    return getattr(config, "task", None), class_count(config)


def _plain(count: int) -> tuple[str, ...]:
    return tuple(f"LABEL_{number}" for number in range(count))
