"""The cells that the page writes out, computed again from the numbers that it shows: terms, and facts between them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from clearhead.studio.schema import Step
from tests.browser.truth import Truth
from tests.unit.studio.test_steps import FUNCTIONS

Terms = list[tuple[float, float | None, float]]
Facts = list[tuple[str, float]]


class Cell:
    """A written cell: its terms (left, right, value), its facts by name in their order, and where it is."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.row, self.column = said["cell"]
        self.terms: Terms = [
            (float(term["left"]), None if term["right"] is None else float(term["right"]), float(term["value"]))
            for term in (one | {"right": one.get("right")} for one in said["terms"])
        ]
        self.facts: Facts = [(name, float(value)) for name, value in said["facts"]]
        self.total, self.shown = float(said["total"]), float(said["shown"])

    def __getitem__(self, name: str) -> float:
        return next(value for known, value in self.facts if known == name)


def recomputed(step: Step, cell: Cell, truth: Truth, head: int) -> float:
    """The cell, from what the page shows of it; what it shows is held against the operands on the way."""
    operands = [truth.matrix(one.key, min(head, one.heads - 1)).detach().double() for one in step.operands]
    return RULES[step.operation](step, cell, operands, truth)


def close(a: float, b: float, largest: float = 1.0) -> bool:
    return a == b or abs(a - b) <= 1e-5 * max(1.0, largest)


def _product(step: Step, cell: Cell, at: Sequence[Tensor], _: Truth) -> float:
    left, right = at[0][cell.row].tolist(), at[1][:, cell.column].tolist()
    assert [(a, b) for a, b, _ in cell.terms] == list(zip(left, right, strict=True))
    assert all(close(value, a * (b or 0.0)) for a, b, value in cell.terms)
    added = cell.facts[1][1] if len(at) > 2 else 0.0
    assert len(at) < 3 or added == float(at[2][0, cell.column])
    return math.fsum(value for _, _, value in cell.terms) + added


def _scale(step: Step, cell: Cell, at: Sequence[Tensor], _: Truth) -> float:
    ((left, factor, _value),) = cell.terms
    assert left == float(at[0][cell.row, cell.column]) and factor == step.factor
    return left * (factor or 0.0)


def _add(step: Step, cell: Cell, at: Sequence[Tensor], _: Truth) -> float:
    addends = [float(x[min(cell.row, len(x) - 1), cell.column]) for x in at]
    assert all(close(value, addend) for (_, value), addend in zip(cell.facts, addends, strict=True))
    return math.fsum(value for _, value in cell.facts)


def _mask(step: Step, cell: Cell, at: Sequence[Tensor], _: Truth) -> float:
    assert cell["before"] == float(at[0][cell.row, cell.column])
    return cell["before"] if cell["may look"] == 1 else -math.inf


def _softmax(step: Step, cell: Cell, at: Sequence[Tensor], _: Truth) -> float:
    assert [left for left, _, _ in cell.terms] == at[0][cell.row].tolist()
    top = max(left for left, _, _ in cell.terms)
    powers = [math.exp(left - top) for left, _, _ in cell.terms]
    assert all(close(value, power) for power, (_, _, value) in zip(powers, cell.terms, strict=True))
    return powers[cell.column] / math.fsum(powers)


def _norm(step: Step, cell: Cell, at: Sequence[Tensor], _: Truth) -> float:
    row, gain = at[0][cell.row], at[1][0, cell.column].item()
    variance = row.var(correction=0).item()
    assert cell["x"] == row[cell.column].item() and cell["× gain"] == gain and cell["ε"] == step.epsilon
    assert close(cell["mean of the row"], row.mean().item()) and close(cell["variance of the row"], variance)
    normed = (cell["x"] - cell["mean of the row"]) / math.sqrt(cell["variance of the row"] + cell["ε"])
    return normed * cell["× gain"] + cell["+ bias"]


def _rms(step: Step, cell: Cell, at: Sequence[Tensor], _: Truth) -> float:
    row = at[0][cell.row]
    assert cell["x"] == row[cell.column].item() and cell["ε"] == step.epsilon
    assert close(cell["mean square of the row"], row.square().mean().item())
    return cell["x"] / math.sqrt(cell["mean square of the row"] + cell["ε"]) * cell["× gain"]


def _activation(step: Step, cell: Cell, at: Sequence[Tensor], _: Truth) -> float:
    assert cell["x"] == float(at[0][cell.row, cell.column])
    made = float(FUNCTIONS[step.function or ""](torch.tensor(cell["x"], dtype=torch.float64)))
    return made * (cell.facts[2][1] if len(at) > 1 else 1.0)


def _concat(step: Step, cell: Cell, at: Sequence[Tensor], truth: Truth) -> float:
    head, column = int(cell["head"]) - 1, int(cell["its column"])
    assert head * at[0].shape[1] + column == cell.column
    return float(truth.matrix(step.operands[0].key, head)[cell.row, column])


def _join(step: Step, cell: Cell, at: Sequence[Tensor], _: Truth) -> float:
    ((_name, row),) = cell.facts
    which = 0 if cell.row < len(at[0]) else 1
    assert row == cell.row - which * len(at[0])
    return float(at[which][int(row), cell.column])


def _pool(step: Step, cell: Cell, at: Sequence[Tensor], _: Truth) -> float:
    return float(at[0][int(cell["row"]), cell.column])


def _lookup(step: Step, cell: Cell, at: Sequence[Tensor], _: Truth) -> float:
    assert cell["number"] == float(at[0][cell.row, 0])
    return float(at[1][int(cell["number"]), cell.column])


def _patches(step: Step, cell: Cell, at: Sequence[Tensor], truth: Truth) -> float:
    height = truth.model.config.image[0]
    return float(at[0][int(cell["channel"]) * height + int(cell["y"]), int(cell["x"])])


RULES: dict[str, Callable[[Step, Cell, Sequence[Tensor], Truth], float]] = {
    "product": _product,
    "scale": _scale,
    "add": _add,
    "mask": _mask,
    "softmax": _softmax,
    "norm": _norm,
    "rms": _rms,
    "activation": _activation,
    "concat": _concat,
    "join": _join,
    "pool": _pool,
    "lookup": _lookup,
    "patches": _patches,
}
