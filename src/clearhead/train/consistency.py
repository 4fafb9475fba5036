"""Two passes over the same rows under different dropout should agree (R-Drop, Liang et al. 2021).

Every row is read twice. Half of both divergences between the two answers, times `consistency`, is added to the loss:
where a model has little to learn from, this keeps it from knowing each row by heart.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..models.base import Model
from ..ops.kernels import has_kernel
from .token_loss import in_one_step, last_product, vocabulary_of, word_logits
from .vocabulary_loss import agreeing_vocabulary_loss

MOST = 16384  # words that the kernel for both answers holds


def twice(tensor: Tensor) -> Tensor:
    """Rows, and behind them the same rows again."""
    return torch.cat([tensor, tensor])


def apart(logits: Tensor) -> Tensor:
    """logits (2N,C) of rows and the same rows again -> (N,): half of KL(p, q) + KL(q, p), in nats."""
    one, other = logits.log_softmax(-1).chunk(2)
    return ((one.exp() - other.exp()) * (one - other)).sum(-1) / 2


def agreeing_loss(
    model: Model, hidden: Tensor, targets: Tensor, weights: Tensor | None, smoothing: float, consistency: float
) -> dict[str, Tensor]:
    """hidden (2B,L,width) of rows that were read twice, targets and weights (B,L) -> sums over tokens.

    The loss holds the mean of both cross-entropies; `apart` is how far they are from each other.
    """
    if _has_kernel(model, hidden) and (product := last_product(model, hidden)) is not None:
        counts = None if weights is None else weights.flatten()
        loss, divergence = agreeing_vocabulary_loss(product, targets.flatten(), counts, smoothing, consistency)
        return {"loss": loss, "apart": divergence}
    logits = word_logits(model, hidden).float().flatten(0, -2)
    losses = F.cross_entropy(logits, twice(targets).flatten(), reduction="none", label_smoothing=smoothing)
    losses, divergence = losses.view(2, -1).mean(0), apart(logits)
    if weights is not None:
        losses, divergence = losses * weights.flatten(), divergence * weights.flatten()
    return {"loss": losses.sum() + consistency * divergence.sum(), "apart": divergence.sum()}


def _has_kernel(model: Model, hidden: Tensor) -> bool:
    return in_one_step(model, hidden) and vocabulary_of(model) <= MOST and has_kernel("agreeing_losses")
