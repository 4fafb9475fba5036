"""How much of a device's arithmetic a run uses: the operations of an update over what the device could have done."""

import time
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from .task import Task

SIDE = {"cpu": 1024, "cuda": 8192}
TRIES = 5


def batch_operations(task: Task, batch: Any, seed: int = 0) -> int:
    """Floating-point operations of one batch, forward and backward: counted on shapes alone, nothing is computed.

    The backward pass of a product is two products of the same size, so forward times three.
    """
    model = task.model(seed).train()
    with FakeTensorMode(allow_non_fake_inputs=True), FlopCounterMode(display=False) as counter:
        task.losses(model, batch)
    return 3 * counter.get_total_flops()


def peak(device: torch.device, precision: str) -> float:
    """Operations a second that this device reaches on one large product in this precision: measured, best of a few."""
    kind = torch.float32 if precision == "fp32" else torch.bfloat16
    side = SIDE.get(device.type, 1024)
    left, right = (torch.ones(side, side, device=device, dtype=kind) for _ in range(2))
    best = 0.0
    for _ in range(TRIES):
        _wait(device)
        begun = time.perf_counter()
        torch.mm(left, right)
        _wait(device)
        best = max(best, 2 * side**3 / (time.perf_counter() - begun))
    return best


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Meter:
    """Told the number of updates made so far, it says which share of the device's arithmetic the last ones used."""

    def __init__(self, operations: int, peak: float) -> None:
        self.operations, self.peak = operations, peak
        self._last: tuple[int, float] | None = None

    def share(self, step: int, now: float) -> float | None:
        """None at the first call: there is nothing to compare with."""
        before, self._last = self._last, (step, now)
        if before is None or now <= before[1]:
            return None
        return (step - before[0]) * self.operations / (now - before[1]) / self.peak
