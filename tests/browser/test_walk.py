"""The walk: every step of every family, in order; its cells are the model's own, and follow from what is shown."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.studio.schema import Step
from clearhead.studio.steps import table
from tests.browser.recomputed import RULES, Cell, close, recomputed
from tests.browser.truth import Truth
from tests.unit.studio.test_steps import EXPECTED

pytestmark = pytest.mark.xdist_group("browser-walk")

READ = (Path(__file__).parent / "reading.js").read_text(encoding="utf-8")
HEAD = 1  # the second one: the first is also what a forgotten head would give
VARIANTS = {"gpt": "gpt2", "transformer": "pre", "bert": "pretrain", "t5": "v1.0", "vit": "cls"}


def expected(family: str) -> list[str]:
    """The list of the table's own test. One input alone has no padding: only a decoder hides what comes later."""
    steps = EXPECTED[family, VARIANTS[family]]
    return [step for step in steps if not step.endswith(".masked") or re.match(r"decoder\.\d+\.attention", step)]


@pytest.mark.parametrize("family", VARIANTS)
def test_every_step_is_walked_and_every_cell_read_is_the_models_own(family, studio, tab, keep):
    truth = Truth.of(studio.runs[family])
    steps = {step.id: step for step in table(truth.model, truth.trace)[1]}
    page = tab()
    page.goto(studio.of(family, head=HEAD + 1))
    walked, drawn = [], set()
    for name in expected(family):
        seen = page.evaluate(READ, name)
        walked.append(seen["step"])
        check(steps[name], seen, truth)
        if steps[name].operation not in drawn:
            drawn.add(steps[name].operation)
            keep(page, f"step-{steps[name].operation}-{family}")
        page.keyboard.press("ArrowRight")
    assert walked == expected(family) == list(steps)
    page.wait_for_timeout(50)
    assert page.locator("[data-stage]").get_attribute("data-stage") == walked[-1], "a step is behind the last one"


def check(step: Step, seen: dict[str, Any], truth: Truth) -> None:
    assert seen["problem"] is None and seen["sideways"] <= 0, step.id
    assert seen["operation"] == step.operation
    assert {matrix.site for matrix in (step.result, *step.operands)} <= set(seen["site"]), "the panel names its sites"
    check_matrices(step, seen, truth)
    result = truth.matrix(step.result.key, min(HEAD, step.result.heads - 1)).detach().double()
    finite = result[torch.isfinite(result)]
    largest = finite.abs().max().item() if finite.numel() else 1.0
    assert len(seen["written"]) == (3 if step.operation in RULES else 0), step.id
    for said in seen["written"]:
        cell = Cell(said)
        assert close(cell.shown, result[cell.row, cell.column].item(), largest)
        assert close(recomputed(step, cell, truth, HEAD), cell.shown, largest), (step.id, said)
        assert close(cell.total, cell.shown, largest), (step.id, said)
    if step.operation == "choose":
        check_bars(step, seen, truth)


def check_matrices(step: Step, seen: dict[str, Any], truth: Truth) -> None:
    """Every matrix of the step is there, and three of its cells are those of the parameter or of the record."""
    keys = {matrix["key"] for matrix in seen["matrices"]}
    hidden = {"lookup": 1, "choose": 1, "patches": 1}.get(step.operation, 0)  # drawn as a chip, as bars, as a picture
    assert {matrix.key for matrix in (step.result, *step.operands[hidden:])} <= keys, step.id
    for matrix in seen["matrices"]:
        value = shown_value(matrix, seen, truth).detach()
        assert tuple(value.shape) == (matrix["rows"], matrix["columns"]), (step.id, matrix)
        exact = not matrix["key"].startswith("derived:")
        assert matrix["mode"] == ("cells" if max(span(matrix)) <= 64 else "canvas")
        for row, column, text in matrix["cells"]:
            told, wanted = float(np.float32(text)), value[row, column].item()
            same = told == float(np.float32(wanted)) if exact else close(told, wanted)
            assert same, (step.id, matrix["key"], row, column, told, wanted)


def span(matrix: dict[str, Any]) -> tuple[int, int]:
    r0, r1, c0, c1 = matrix["window"]
    return r1 - r0, c1 - c0


def shown_value(matrix: dict[str, Any], seen: dict[str, Any], truth: Truth) -> torch.Tensor:
    key, _, part = matrix["key"].partition("#")
    value = truth.matrix(key, matrix["head"])
    if part == "patch":  # one row, as it lies in the picture
        return value[seen["chosen"][0]].reshape(truth.model.config.patch)
    return value


def check_bars(step: Step, seen: dict[str, Any], truth: Truth) -> None:
    """The bars are the probabilities of the row that is looked at, largest first, and the first is what was chosen."""
    row = seen["chosen"][0]
    chances, chosen = truth.matrix(step.operands[0].key), truth.matrix(step.result.key)
    assert seen["bars"][0][0] == int(chosen[row, 0]), step.id
    assert all(close(float(value), chances[row, id].item()) for id, value in seen["bars"]), step.id
    values = [float(value) for _, value in seen["bars"]]
    assert len(values) == min(20, chances.shape[1]) and values == sorted(values, reverse=True)
