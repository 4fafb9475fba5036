"""The routes of training: jobs, runs, one update. They share the data that was read."""

from fastapi import APIRouter

from . import jobs_api, runs_api
from .core import Studio
from .job_samples import SampleBook
from .jobs import Jobs
from .runs import Runs
from .tasks_kept import Tasks
from .training_step import Opener


def router(studio: Studio) -> APIRouter:
    tasks, runs = Tasks(), Runs(studio.shelf)
    jobs = Jobs(studio.settings.root, studio.settings.data, tasks=tasks)
    routes = APIRouter()
    routes.include_router(jobs_api.router(jobs, SampleBook(tasks), studio.shelf))
    routes.include_router(runs_api.router(runs, Opener(tasks)))
    return routes
