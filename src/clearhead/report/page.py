"""`report.html`: a run as one page that needs nothing else. No network, no script: it can be mailed and kept.

What it shows comes from the run's folder (run.yaml, metrics.jsonl, result.json, the last state) and from the samples
that the caller computed with the folder's own weights.
"""

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

from ..errors import ClearheadError
from . import scale, style
from .predictions import predictions
from .run_files import read_last_state, read_lines, read_result, read_settings
from .sample_kinds import Sample
from .sections import configuration, convergence, figures, head, machine

NAME = "report.html"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def write_report(folder: str | os.PathLike[str], samples: Sequence[Sample] = ()) -> Path:
    """Write report.html into a run's folder, finished or not, and return its path."""
    place = Path(folder)
    run, lines, result = read_settings(place), read_lines(place), read_result(place)
    if not (run or lines or result):
        raise ClearheadError(f"{place} is not the folder of a run: it has no run.yaml, metrics.jsonl or result.json")
    name = str(run.get("name") or result.get("run") or place.name)
    body = [
        head(name, run, lines, result),
        figures(result),
        convergence(lines),
        predictions(samples),
        configuration(run),
        machine(result, read_last_state(place)),
    ]
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(name)}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<style>{style.STYLE}{scale.STYLE}</style></head><body>{scale.DEFS}{''.join(body)}</body></html>\n"
    )
    aside = place / f".{NAME}.part"
    try:
        aside.write_text(page, encoding="utf-8", errors="backslashreplace")
        aside.replace(place / NAME)
    except OSError as problem:
        raise ClearheadError(f"{place / NAME} can't be written: {problem.strerror}") from None
    return place / NAME
