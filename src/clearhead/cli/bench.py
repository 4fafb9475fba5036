"""`clearhead bench`: one row of the speed table, measured beside its peers on this machine's GPU."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from ..errors import ClearheadError

CHECKOUT = Path(__file__).resolve().parents[3]


def command(
    row: Annotated[str | None, typer.Argument(help="A row's name, such as gpt-train; all unless given.")] = None,
    graph: Annotated[bool, typer.Option("--graph", help="Measure training as a CUDA graph too.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Toy sizes on the CPU: does it run? No claim.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as one JSON object.")] = False,
) -> None:
    """Measure a row of the speed table: ours and its peers take turns in one process. Needs a checkout and a GPU.

    Example: `clearhead bench gpt-train --json`
    """
    words = [f"--rows={row}"] if row else []
    words += [f"--{name}" for name, wanted in (("graph", graph), ("quick", quick), ("json", as_json)) if wanted]
    code = _benchmarks(CHECKOUT).main(words)
    if code:
        raise typer.Exit(code)


def _benchmarks(checkout: Path) -> ModuleType:
    """The table's module, which is no part of the package."""
    if not (checkout / "benchmarks" / "gpu.py").is_file():
        raise ClearheadError("benchmarks live in a checkout: clone the repository, `make bench-gpu` repeats the table")
    sys.path.insert(0, str(checkout))
    return importlib.import_module("benchmarks.gpu")
