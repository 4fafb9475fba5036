"""Runs side by side: what they gave, their curves, and one update of any of them opened."""

from typing import Annotated

from fastapi import APIRouter, Query

from .runs import POINTS, Runs
from .training_schema import RunCard, RunMetrics, StepTold, StepWanted
from .training_step import Opener


def router(runs: Runs, opener: Opener) -> APIRouter:
    routes = APIRouter(prefix="/api/runs", tags=["training"])

    @routes.get("")
    def list_runs() -> list[RunCard]:
        """Every run that has a run.yaml, finished or not."""
        return runs.cards()

    @routes.get("/{name}/metrics")
    def get_run_metrics(name: str, points: Annotated[int, Query(ge=2, le=5000)] = POINTS) -> RunMetrics:
        """All curves of a run, each of at most so many points."""
        return runs.metrics(name, points)

    @routes.post("/{name}/step")
    def open_step(name: str, wanted: StepWanted) -> StepTold:
        """One update with its real values, on a copy: nothing is saved."""
        return opener.step(name, runs.folder(name), wanted)

    return routes
