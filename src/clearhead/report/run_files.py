"""What a run's folder says about it, each file checked: foreign or broken ones are refused in one line."""

from pathlib import Path
from typing import Any

from ..errors import ClearheadError
from ..files import read_json, read_text
from ..train.metrics import read_metrics


def read_settings(place: Path) -> dict[str, Any]:
    """run.yaml, or nothing where there is none."""
    file = place / "run.yaml"
    if not file.is_file():
        return {}
    try:
        import yaml
    except ImportError:
        raise ClearheadError("run.yaml is read with PyYAML, which is not installed: pip install PyYAML") from None
    try:
        values = yaml.safe_load(read_text(file))
    except (yaml.YAMLError, RecursionError):
        raise ClearheadError(f"{file} is not valid YAML: it is broken or another kind of file") from None
    if not isinstance(values, dict):
        raise ClearheadError(f"{file} does not describe a run: it holds no keys and values")
    return values


def read_lines(place: Path) -> list[dict[str, Any]]:
    """metrics.jsonl, each line with its step."""
    try:
        lines = read_metrics(place)
    except (ValueError, OSError):
        raise ClearheadError(f"{place / 'metrics.jsonl'} can't be read: a line of it is no JSON") from None
    if any(not isinstance(line.get("step"), int) for line in lines):
        raise ClearheadError(f"{place / 'metrics.jsonl'} has a line without a step: it is another kind of file")
    return lines


def read_result(place: Path) -> dict[str, Any]:
    """result.json, or nothing while the run is under way."""
    return read_json(place / "result.json") if (place / "result.json").exists() else {}


def read_last_state(place: Path) -> dict[str, Any]:
    """What the last saved state says about where the run trained."""
    files = sorted((place / "state").glob("[0-9]*/state.json"))
    values = read_json(files[-1]).get("values") if files else None
    return values if isinstance(values, dict) else {}
