"""What all routes share: the settings, the models, the pictures and the passes."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..models import Model
from ..trace import Trace
from .passes import KEPT_BYTES, Matrices, Passes, Table
from .pictures import Album
from .shelf import Shelf
from .steps import table
from .steps.matrices import Matrices as TraceMatrices

PAGE = Path(__file__).parent / "page"


@dataclass(frozen=True)
class Settings:
    """runs: folders, weights files or architectures to open; root: whose runs are listed too; data: of named sets.

    token        what our page proves itself with
    trace_bytes  of all traces that are kept
    page         where the built page lies
    """

    runs: tuple[str, ...] = ()
    root: Path | None = None
    data: Path | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    trace_bytes: int = KEPT_BYTES
    page: Path = PAGE


@dataclass(frozen=True)
class Tools:
    """What turns a trace into a table of steps and into matrices."""

    table: Table = table
    matrices: Callable[[Model, Trace], Matrices] = TraceMatrices


class Studio:
    def __init__(self, settings: Settings, tools: Tools | None = None) -> None:
        tools = tools or Tools()
        self.settings = settings
        self.shelf = Shelf(settings.runs, settings.root, settings.data)
        self.album = Album(settings.data)
        self.passes = Passes(self.shelf, self.album, tools.table, tools.matrices, settings.trace_bytes)
