"""Complete runs by name: each is a function that returns a typed `Run`; its docstring says what it costs and gives."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import ClearheadError, near
from ..train.loop import Run
from . import pictures, texts


@dataclass(frozen=True)
class Recipe:
    """title: what it is; costs: machine and time; gives: the figures that were measured. From the docstring."""

    name: str
    make: Callable[[], Run]
    title: str
    costs: str
    gives: str


def _described(make: Callable[[], Run]) -> Recipe:
    """A docstring is a sentence, then lines `Costs:` and `Gives:`."""
    text = inspect.cleandoc(make.__doc__ or "")
    parts = {key: value for key, _, value in (line.partition(": ") for line in text.split("\n")) if value}
    title = text.split("\n\n")[0].replace("\n", " ")
    return Recipe(make.__name__.replace("_", "-"), make, title, parts.get("Costs", ""), parts.get("Gives", ""))


RECIPES = {recipe.name: recipe for recipe in map(_described, (*pictures.RECIPES, *texts.RECIPES))}


def recipe(name: str) -> Run:
    if name not in RECIPES:
        raise ClearheadError(f"there is no recipe '{name}'{near(name, RECIPES)}")
    return RECIPES[name].make()
