"""The page's sections about the run itself: head, final figures, curves, configuration, machine. Each is HTML."""

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import torch

from ..train.machine import processor
from .curves import Curve, line_chart
from .scale import number

MACHINE = "machine"  # the key of result.json that holds no part's figures
LONGEST_TABLE = 20  # rows
FEW = 120  # validations that get a dot each
UNBOUNDED = ("loss", "perplexity", "norm")  # figures of which a tenth may be as telling as a half
BESIDE = ("rate", "norm")  # figures about the training itself, after those about what was learned


def head(name: str, run: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], result: Mapping[str, Any]) -> str:
    task = run.get("task")
    about = [task[key] for key in ("kind", "model", "data") if key in task] if isinstance(task, dict) else []
    if result:
        about += [f"{result.get('steps', '?')} steps", f"{number(float(result.get('seconds', 0)))} s"]
    else:
        about += [f"not finished: {lines[-1]['step'] if lines else 0} steps so far"]
    return f"<h1>{escape(name)}</h1><p>{escape(' · '.join(map(str, about)))}</p>"


def figures(result: Mapping[str, Any]) -> str:
    parts = {name: values for name, values in result.items() if isinstance(values, dict) and name != MACHINE}
    if not parts:
        return ""
    names = list(dict.fromkeys(name for values in parts.values() for name in values))
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = "".join(
        f"<tr><th>{escape(part)}</th>{''.join(_figure(values.get(name)) for name in names)}</tr>"
        for part, values in parts.items()
    )
    return f"<h2>Final figures</h2><table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _figure(value: Any) -> str:
    if not isinstance(value, int | float):
        return f"<td>{'' if value is None else escape(str(value))}</td>"
    told = f"{value:.4f}" if value == 0 or 0.001 <= abs(value) < 10 else number(value, 5)
    return f'<td class="big" title="{value!r}">{told}</td>'


def convergence(lines: Sequence[Mapping[str, Any]]) -> str:
    """Every figure over the steps: that of training and those of other parts under one name on one chart."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for line in lines:
        for key, value in line.items():
            if key != "step" and isinstance(value, int | float):
                part, _, figure = key.rpartition("/")
                found.setdefault(figure, {}).setdefault(part, []).append((line["step"], value))
    if not found:
        return '<h2>Convergence</h2><p class="none">No figures were written yet.</p>'
    settled = {name: parts for name, parts in found.items() if _never_changes(parts) and len(found) > 1}
    order = sorted((name for name in found if name not in settled), key=lambda name: (name in BESIDE, name != "loss"))
    drawn = "".join(
        line_chart(
            [_curve(part, points, name) for part, points in found[name].items()],
            name,
            log=None if name.endswith(UNBOUNDED) else False,
        )
        for name in order
    )
    said = ", ".join(f"{name} {number(next(iter(parts.values()))[0][1], 6)}" for name, parts in settled.items())
    note = f'<p class="lead">The same throughout: {escape(said)}.</p>' if said else ""
    return f'<h2>Convergence</h2><div class="charts">{drawn}</div>{note}'


def _never_changes(parts: Mapping[str, Sequence[tuple[float, float]]]) -> bool:
    values = [value for points in parts.values() for _, value in points]
    return len(values) > 1 and min(values) == max(values)


def _curve(part: str, points: list[tuple[float, float]], figure: str) -> Curve:
    style = {"": 1, "valid": 2}.get(part, 3)
    return Curve(part or "train", points, style, marked=bool(part) and len(points) <= FEW, noisy=figure != "rate")


def configuration(run: Mapping[str, Any]) -> str:
    if not run:
        return ""
    groups = [("run", list(_flat({k: v for k, v in run.items() if not isinstance(v, dict)})))]
    groups += [(str(name), list(_flat(values))) for name, values in run.items() if isinstance(values, dict)]
    tables = "".join(
        _table(name if first == 0 else f"{name}, continued", rows[first : first + LONGEST_TABLE])
        for name, rows in groups
        for first in range(0, len(rows), LONGEST_TABLE)
    )
    return f'<h2>Configuration</h2><p class="lead">As run.yaml holds it.</p><div class="two">{tables}</div>'


def _flat(values: Mapping[Any, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{key}.")
        else:
            yield (
                f"{before}{key}",
                value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str),
            )


def machine(result: Mapping[str, Any], state: Mapping[str, Any]) -> str:
    """What the run's own files say about its time and machine, and on what this page was written.

    A run that is not finished has no result yet: its last state knows the threads and processes.
    """
    said = {key: value for key, value in result.items() if not isinstance(value, dict) and key != "run"}
    said |= result[MACHINE] if isinstance(result.get(MACHINE), dict) else {}
    known = {"threads": state.get("threads"), "processes": state.get("world")}
    said |= {key: value for key, value in known.items() if value is not None and key not in said}
    names = {
        "seconds": "seconds of training",
        "preparing_seconds": "of them compiling",
        "wall_seconds": "seconds in all",
    }
    steps, seconds = said.get("steps"), said.get("seconds")
    rows = [(names.get(key, key), _plain(value)) for key, value in said.items()]
    if isinstance(steps, int) and isinstance(seconds, int | float) and seconds > 0:
        rows.append(("steps a second", number(steps / seconds)))
    here = [("processor", processor()), ("cores", str(os.cpu_count())), ("threads now", str(torch.get_num_threads()))]
    here += [("GPU", torch.cuda.get_device_name())] if torch.cuda.is_available() else []
    here += [("PyTorch", torch.__version__), ("Python", platform.python_version()), ("system", platform.system())]
    return (
        '<h2>Time and machine</h2><div class="two">'
        + (_table("the run", rows) if rows else "")
        + _table("where this page was written", here)
        + "</div>"
    )


def _table(title: str, rows: Sequence[tuple[str, str]]) -> str:
    body = "".join(f"<tr><th>{escape(key)}</th><td><code>{escape(value)}</code></td></tr>" for key, value in rows)
    return f"<table><thead><tr><th colspan=2>{escape(title)}</th></tr></thead><tbody>{body}</tbody></table>"


def _plain(value: Any) -> str:
    return number(value, 4) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
