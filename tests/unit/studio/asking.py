"""How tests ask the studio: a pass that succeeds, one that is refused, a matrix as numbers."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

TOKEN = "the token of these tests"


def passed(client: Any, model: str, **inputs: str) -> dict[str, Any]:
    answer = client.post("/api/passes", json={"model": model, "inputs": inputs})
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: Any, status: int, model: str, **inputs: str) -> str:
    """The one line that a refusal is."""
    return problem(client.post("/api/passes", json={"model": model, "inputs": inputs}), status)


def problem(answer: Any, status: int) -> str:
    assert answer.status_code == status, answer.text
    assert answer.json().keys() == {"problem"}
    assert "\n" not in answer.json()["problem"]
    return answer.json()["problem"]


def matrix(client: Any, id: str, key: str, **asked: Any) -> Tensor:
    answer = client.get(f"/api/passes/{id}/matrix", params={"key": key, **asked})
    assert answer.status_code == 200, answer.text
    return numbers(answer, [end - start for start, end in _pairs(answer.headers["x-slice"])])


def numbers(answer: Any, shape: list[int]) -> Tensor:
    return torch.from_numpy(np.frombuffer(answer.content, "<f4").reshape(shape).copy())


def _pairs(text: str) -> list[tuple[int, int]]:
    a, b, c, d = map(int, text.split(","))
    return [(a, b), (c, d)]
