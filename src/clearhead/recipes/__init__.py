"""Complete runs by name: each is a function that returns a typed `Run`; its docstring says what it costs and gives."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import ClearheadError, near
from ..train.loop import Run
from . import finetuning, one_gpu, pictures, texts


@dataclass(frozen=True)
class Recipe:
    """title: what it is; costs: machine and time; gives: the figures that were measured. From the docstring."""

    name: str
    make: Callable[..., Run]
    title: str
    costs: str
    gives: str

    @property
    def has_quick(self) -> bool:
        """Whether there is a short version of it, for two cores."""
        return "quick" in inspect.signature(self.make).parameters


def _described(make: Callable[..., Run]) -> Recipe:
    """A docstring is a sentence, then lines `Costs:` and `Gives:`; an indented line belongs to the one before."""
    text = re.sub(r"\n +", " ", inspect.cleandoc(make.__doc__ or ""))
    parts = {key: value for key, _, value in (line.partition(": ") for line in text.split("\n")) if value}
    title = text.split("\n\n")[0].replace("\n", " ")
    return Recipe(make.__name__.replace("_", "-"), make, title, parts.get("Costs", ""), parts.get("Gives", ""))


EVERY = (*pictures.RECIPES, *texts.RECIPES, *finetuning.RECIPES, *one_gpu.RECIPES)
RECIPES = {recipe.name: recipe for recipe in map(_described, EVERY)}


def recipe(name: str, quick: bool = False) -> Run:
    """The run of that name; `quick`: its short version, where it has one."""
    if name not in RECIPES:
        raise ClearheadError(f"there is no recipe '{name}'{near(name, RECIPES)}")
    found = RECIPES[name]
    if not quick:
        return found.make()
    if not found.has_quick:
        short = ", ".join(one.name for one in RECIPES.values() if one.has_quick)
        raise ClearheadError(f"{name} has no quick version; these have: {short}")
    return found.make(quick=True)
