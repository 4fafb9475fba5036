"""Runs that can be measured by themselves."""

from collections.abc import Sequence

from clearhead.errors import ClearheadError
from clearhead.recipes.start import named_run
from clearhead.train.job import Run


def one_stage(name: str, data: Sequence[str], keys: Sequence[str], quick: bool = False) -> Run:
    """A named run that begins with what is there: one with a first stage is an error, as that would be left out."""
    run = named_run(name, data, keys, quick=quick)
    if run.first is not None:
        raise ClearheadError(f"{name} has a first stage: take a recipe without one, and model=FOLDER")
    return run
