"""Muon: momentum made orthogonal by Newton and Schulz's iteration, for the matrices between a model's two ends.

Keller Jordan et al. 2024; the scale that lets AdamW's rates be used again is Liu et al. 2025. torch.optim.Muon does the
same, one matrix at a time; here all matrices of one shape go through the iteration together, a wide one and the
transpose of a tall one too. A weight that holds several matrices side by side (`parts`: rows of q, k and v) is treated
as those matrices, each orthogonal and scaled by itself.
"""

# pyright: reportPrivateImportUsage=false

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # the steepest start at zero; singular values end near one, not at it
STEPS = 5
SMALLEST = 1e-7  # a norm below it counts as this much: zeros stay zeros

SCALES = {
    "adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),  # the size of AdamW's updates: its rates fit
    "original": lambda rows, columns: math.sqrt(max(1.0, rows / columns)),
}


def orthogonal(matrices: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """matrices (N,rows,columns), rows <= columns -> U S' V^T of each, with S' near one. Computed in `dtype`."""
    a, b, c = COEFFICIENTS
    x = matrices.to(dtype)
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=SMALLEST)
    for _ in range(STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


class Muon(torch.optim.Optimizer):
    """Groups take `lr` (a number, or a tensor on the device), `weight_decay` (decoupled, as AdamW's), and `parts`.

    `parts` are the rows of each weight's matrices.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        *,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        scale: str = "adamw",
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})
        self.momentum, self.nesterov, self.scale, self.dtype = momentum, nesterov, SCALES[scale], dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in self.param_groups:
            parts = group.get("parts") or [(len(weight),) for weight in group["params"]]
            moving = [
                (weight, rows) for weight, rows in zip(group["params"], parts, strict=True) if weight.grad is not None
            ]
            if not moving:
                continue
            weights = [weight for weight, _ in moving]
            updates = self._orthogonal(self._momenta(weights), [rows for _, rows in moving])
            if group["weight_decay"]:
                torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
            if isinstance(group["lr"], Tensor):  # it must not come to the host
                torch._foreach_mul_(updates, group["lr"])
                torch._foreach_sub_(weights, updates)
            else:
                torch._foreach_add_(weights, updates, alpha=-group["lr"])

    def _momenta(self, weights: list[Tensor]) -> list[Tensor]:
        """The gradients' running means, moved on by one step; with Nesterov's look ahead."""
        gradients: list[Any] = [weight.grad for weight in weights]
        for weight in weights:
            if not self.state[weight]:
                self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
        means = [self.state[weight]["momentum_buffer"] for weight in weights]
        torch._foreach_lerp_(means, gradients, 1 - self.momentum)
        return list(torch._foreach_lerp(gradients, means, self.momentum)) if self.nesterov else means

    def _orthogonal(self, momenta: list[Tensor], parts: list[tuple[int, ...]]) -> list[Tensor]:
        """Each momentum's matrices made orthogonal and scaled, put together again."""
        matrices = [matrix for whole, rows in zip(momenta, parts, strict=True) for matrix in whole.split(list(rows))]
        alike: dict[tuple[torch.Size, float], list[int]] = {}
        for index, matrix in enumerate(matrices):
            alike.setdefault((_wide(matrix).shape, self.scale(*matrix.shape)), []).append(index)
        done = dict[int, Tensor]()
        for (_, scale), indices in alike.items():
            batch = orthogonal(torch.stack([_wide(matrices[index]) for index in indices]), self.dtype).float() * scale
            for index, matrix in zip(indices, batch.unbind(), strict=True):
                done[index] = matrix if matrix.shape == matrices[index].shape else matrix.mT
        new = (done[index] for index in range(len(matrices)))
        updates = [[next(new) for _ in rows] for rows in parts]
        return [
            (update[0] if len(update) == 1 else torch.cat(update)).to(whole.dtype).contiguous()
            for whole, update in zip(momenta, updates, strict=True)
        ]


def _wide(matrix: Tensor) -> Tensor:
    """Itself, or the transpose of one that has more rows than columns."""
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT
