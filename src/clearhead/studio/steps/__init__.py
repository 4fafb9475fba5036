"""The table of steps of a pass: for every family what is computed, in its order, and where its numbers are."""

from ...models import Model
from ...trace import Trace
from ..schema import Node, Step
from . import bert, gpt, t5, transformer, vit
from .making import Maker
from .matrices import Matrices

PARTS = {"transformer": transformer.parts, "gpt": gpt.parts, "bert": bert.parts, "t5": t5.parts, "vit": vit.parts}


def table(model: Model, trace: Trace) -> tuple[list[Node], list[Step]]:
    """The left rail and every step of a pass that was recorded whole and at once: `record(model, ...)`."""
    make = Maker(model, trace)
    return make.joined(PARTS[model.family](make))


__all__ = ["Matrices", "table"]
