"""Start, watch, stop and go on with training."""

from pathlib import Path
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query

from .job_samples import SampleBook
from .jobs import Jobs, recipe_cards
from .shelf import Shelf
from .training_schema import Job, JobTold, JobWanted, MetricLines, Samples
from .training_schema import Jobs as JobList

J = TypeVar("J", bound=Job)


def router(jobs: Jobs, book: SampleBook, shelf: Shelf) -> APIRouter:
    routes = APIRouter(prefix="/api/jobs", tags=["training"])

    def opened(job: J) -> J:
        """With its id among the models, once there are weights to open."""
        found = {entry.place: entry.id for entry in shelf.entries() if entry.place is not None}
        return job.model_copy(update={"model": found.get(Path(job.folder))})

    @routes.get("")
    def list_jobs() -> JobList:
        """Every recipe with its cost and result, and every job, the one started last first."""
        listed = [opened(job) for job in jobs.listed()]
        return JobList(recipes=recipe_cards(), jobs=listed, limit=jobs.limit, refusal=jobs.refusal())

    @routes.post("")
    def start_job(wanted: JobWanted) -> JobTold:
        """Train a recipe in a process of its own."""
        return jobs.told(jobs.start(wanted).name)

    @routes.get("/{name}")
    def get_job(name: str) -> JobTold:
        return opened(jobs.told(name))

    @routes.get("/{name}/metrics")
    def get_job_metrics(
        name: str,
        after: Annotated[int, Query(ge=0)] = 0,
        mark: Annotated[str | None, Query(max_length=200)] = None,
        first: bool | None = None,
    ) -> MetricLines:
        """Lines of metrics behind the byte `after`."""
        return jobs.metrics(name, after, mark, first)

    @routes.get("/{name}/samples")
    def get_job_samples(name: str) -> Samples:
        """What the weights saved last say of a few validation examples."""
        return book.of(*jobs.trained(name))

    @routes.post("/{name}/stop")
    def stop_job(name: str) -> JobTold:
        """Save and end; a second time: end at once, with the state saved last."""
        return jobs.told(jobs.stop(name).name)

    @routes.post("/{name}/resume")
    def resume_job(name: str) -> JobTold:
        """Go on from the last saved state."""
        return jobs.told(jobs.resume(name).name)

    return routes
