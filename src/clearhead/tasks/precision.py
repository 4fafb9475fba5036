"""What weights in 8 bits cost: the same inputs through both models, and how their answers differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..decode import Limits, collect, continues, generate
from ..decode.protocol import padded
from ..layers import bytes_of
from ..models.base import Model

WRITTEN = 16  # tokens that an encoder-decoder writes itself to be compared on


@dataclass(frozen=True)
class Loss:
    """agreement: share of places with the same best answer; divergence: mean KL in nats; error: of the logits."""

    places: int
    agreement: float
    divergence: float
    error: float
    bytes_before: int
    bytes_after: int

    def __str__(self) -> str:
        return (
            f"{shrunk(self.bytes_before, self.bytes_after)}; on {self.places:,} places the best token is the "
            f"same in {self.agreement:.1%}, mean divergence {self.divergence:.2g} nats, logits off by {self.error:.1%}"
        )


def shrunk(before: int, after: int) -> str:
    return f"int8: {before / 1e6:.1f} MB of weights became {after / 1e6:.1f} MB"


def measured_loss(reference: Model, light: Model, rows: Sequence[Sequence[int]]) -> Loss:
    """Both models on the same rows: prompts, or sources with what the reference itself writes for them."""
    given = _inputs(reference, rows)
    return compared(reference, light, [tuple(part.to(reference.device) for part in row) for row in given])


@torch.inference_mode()
def compared(reference: Model, light: Model, inputs: Sequence[tuple[Tensor, ...]]) -> Loss:
    """Both models on the same inputs, whatever the family: the first thing that a call returns is compared."""
    same = places = 0
    divergence = apart = size = 0.0
    for given in inputs:
        before, after = (_first(model(*given)).float().flatten(0, -2) for model in (reference, light))
        places += len(before)
        same += int((before.argmax(-1) == after.argmax(-1)).sum())
        sure, now = before.log_softmax(-1), after.log_softmax(-1)
        divergence += float((sure.exp() * (sure - now)).sum())
        apart += float((before - after).square().sum())
        size += float(before.square().sum())
    error = (apart / size) ** 0.5 if size else 0.0
    return Loss(places, same / places, divergence / places, error, bytes_of(reference), bytes_of(light))


def _inputs(model: Any, rows: Sequence[Sequence[int]]) -> list[tuple[Tensor, ...]]:
    """One row at a time: padding would be compared too."""
    if continues(model):
        return [(padded([row], model.device)[0],) for row in rows]
    written = collect(len(rows), generate(model, rows, Limits(WRITTEN)))
    targets = [[model.start_token, *row.tokens[:-1]] for row in written]
    pairs = zip(rows, targets, strict=True)
    return [(padded([source], model.device)[0], padded([target], model.device)[0]) for source, target in pairs]


def _first(output: Tensor | tuple[Tensor, ...]) -> Tensor:
    return output if isinstance(output, Tensor) else output[0]
