"""A run before, while and after it trains: what it is, who looks on, what came of it."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .settings import Settings, to_plain
from .task import Spec

# settings that the weights do not depend on
ELSEWHERE = ("device", "compile", "graph", "shard", "save_every", "log_every")


@dataclass(frozen=True)
class Run:
    """A complete run: what is learned from what, and how. `first`: a run to be trained before, whose weights it takes.

    A first stage lies in the folder `first` below this run's own; once it is there, the run is one from that folder.
    """

    name: str
    spec: Spec
    settings: Settings
    first: "Run | None" = None

    def behind(self, folder: Path) -> "Run":
        """This run from the weights that its first stage has left in `folder`."""
        return replace(self, spec=replace(self.spec, model=str(folder)), first=None)

    def plain(self) -> dict[str, Any]:
        """As run.yaml holds it, when no stage is left before it."""
        spec = {"kind": self.spec.kind, **to_plain(self.spec)}
        return {"name": self.name, "task": spec, "settings": to_plain(self.settings)}

    @property
    def fingerprint(self) -> str:
        """Two runs with the same one train the same weights. Where they run and how often they save is left out."""
        plain = self.plain()
        for name in ELSEWHERE:
            plain["settings"].pop(name)
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


@dataclass
class Watch:
    """Who looks on: called with what happens, never asked. The command line draws it, tests count it."""

    said: Callable[[str], None] = lambda line: None
    updated: Callable[[int, int, Mapping[str, float]], None] = lambda step, steps, figures: None
    validated: Callable[[int, Mapping[str, float]], None] = lambda step, figures: None
    evaluating: Callable[[int, int], None] = lambda done, of: None


@dataclass
class Outcome:
    """What came of a run: figures by part, how long it trained, how many updates it made, and whether it is done.

    `preparing` is how much of the time went into the first batch and into compiling and recording updates (graph=true),
    in the last sitting.
    """

    folder: Path
    steps: int
    seconds: float
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    interrupted: bool = False
    preparing: float | None = None
