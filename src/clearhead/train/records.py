"""Runs as plain text: run.yaml in and out, and `key=value` on the command line. Unknown keys name the nearest one."""

import dataclasses
import importlib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import ClearheadError, near
from ..files import read_text
from ..models.base import Config
from .loop import Run
from .settings import Settings
from .task import Spec

NAME = "run.yaml"
KINDS = {
    "pictures": ("pictures", "PictureSpec"),
    "labelled": ("labelled", "LabelledSpec"),
    "questions": ("questions", "QuestionSpec"),
    "language": ("language", "LanguageSpec"),
    "masked": ("masked", "MaskedSpec"),
    "translation": ("translation", "TranslationSpec"),
    "corruption": ("corruption", "CorruptionSpec"),
}
SHORT = {"batch": "batching.size", "ema": "average.decay", "optimiser": "optimiser.name"}
FREE = (
    "fields",
    "options",
    "augmentation",
)  # mappings whose keys others check: `model.width=64`, `augmentation.flip=true`
C = typing.TypeVar("C", bound=Config)
WORDS = {"true": True, "false": False, "none": None}


def spec_class(kind: str) -> type[Spec]:
    if kind not in KINDS:
        raise ClearheadError(f"there is no task '{kind}'{near(kind, KINDS)}")
    module, name = KINDS[kind]
    return getattr(importlib.import_module(f".{module}", __package__), name)


def write_run(run: Run, folder: Path) -> None:
    """Aside and renamed: a run's folder says what it is, or does not exist yet."""
    import yaml

    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f".{NAME}.part"
    aside.write_text(yaml.safe_dump(run.plain(), sort_keys=False, allow_unicode=True), encoding="utf-8")
    aside.replace(folder / NAME)


def read_run(folder: Path) -> Run:
    """The run that a folder holds."""
    import yaml

    file = folder / NAME
    if not file.is_file():
        raise ClearheadError(f"{folder} is not the folder of a run: it has no {NAME}")
    try:
        values = yaml.safe_load(read_text(file))
        task = dict(values["task"])
        spec = from_plain(spec_class(task.pop("kind")), task)
        return Run(str(values["name"]), spec, from_plain(Settings, values["settings"]))
    except (yaml.YAMLError, KeyError, TypeError, AttributeError):
        raise ClearheadError(f"{file} does not describe a run: it is broken or another kind of file") from None


def from_plain(kind: type[C], values: Mapping[str, Any]) -> C:
    """A record from what `to_plain` made of it."""
    hints = typing.get_type_hints(kind)
    made: dict[str, Any] = {}
    for name, value in values.items():
        inner = _record(hints.get(name))
        if inner is not None and isinstance(value, Mapping):
            value = from_plain(inner, value)
        made[name] = _several(value) if _is_list(hints.get(name)) else value
    return kind.from_dict(made)


def with_keys(run: Run, pairs: Iterable[str]) -> Run:
    """The run with `key=value` changes. A key is a field's name, dotted where it is inside (`optimiser.rate`)."""
    plain = run.plain()
    kind = plain["task"].pop("kind")
    records = {"task": (spec_class(kind), plain["task"]), "settings": (Settings, plain["settings"])}
    given: set[str] = set()
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise ClearheadError(f"{pair!r} is not key=value")
        where, path = _find(key, {name: record for name, (record, _) in records.items()})
        given.add(path[-1])
        _set(records[where][1], path, parsed(text))
    for one, other in (("steps", "epochs"), ("epochs", "steps")):
        if one in given and other not in given:
            plain["settings"][other] = None
    spec, settings = (from_plain(record, values) for record, values in records.values())
    return Run(run.name, typing.cast(Spec, spec), typing.cast(Settings, settings))


def parsed(text: str) -> Any:
    """A value as it is meant: a number, true, false, none, a list with commas, or the text itself."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if "," in text:
        return tuple(parsed(part) for part in text.split(",") if part)
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _find(key: str, records: Mapping[str, type[Config]]) -> tuple[str, list[str]]:
    """In which record a key stands, and the way to it. A bare name is enough where only one field has it."""
    wanted = SHORT.get(key, key)
    wanted = "fields." + wanted.removeprefix("model.") if wanted.startswith("model.") else wanted
    known = {path: where for where, record in records.items() for path in _paths(record)}
    head = wanted.partition(".")[0]
    if head in FREE and head in known and "." in wanted:
        return known[head], wanted.split(".")
    if wanted in known:
        return known[wanted], wanted.split(".")
    matching = [path for path in known if path.endswith("." + wanted)]
    if len(matching) == 1:
        return known[matching[0]], matching[0].split(".")
    if matching:
        raise ClearheadError(f"'{key}' could be {' or '.join(sorted(matching))}: write it out")
    names = {*known, *SHORT, *(path.rpartition(".")[2] for path in known)}
    raise ClearheadError(f"there is no setting '{key}'{near(key, sorted(names))}")


def _paths(record: type[Config], before: str = "") -> list[str]:
    hints = typing.get_type_hints(record)
    found: list[str] = []
    for field in dataclasses.fields(record):
        inner = _record(hints[field.name])
        found.append(before + field.name)
        if inner is not None:
            found += _paths(inner, f"{before}{field.name}.")
    return found


def _record(hint: Any) -> type[Config] | None:
    """The record that a field holds, also where it may be missing."""
    options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    return next((option for option in options if isinstance(option, type) and issubclass(option, Config)), None)


def _is_list(hint: Any) -> bool:
    """Whether a field holds any number of values, and nothing else."""
    return typing.get_origin(hint) is tuple and typing.get_args(hint)[-1] is Ellipsis


def _several(value: Any) -> tuple[Any, ...]:
    """`freeze=input.*` names one, and `freeze=none` none."""
    return tuple(value) if isinstance(value, tuple | list) else () if value is None else (value,)


def _set(values: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        if not isinstance(values.get(name), dict):
            values[name] = dict(values.get(name) or {})
        values = values[name]
    values[path[-1]] = value
