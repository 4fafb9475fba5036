"""The loss of tokens, from hidden states: the head is applied here and nowhere else in training.

Next token, masked words, translation and span corruption all end in this one sum, so that a way to compute it without
ever holding all the logits has one place to go.
"""

import torch.nn.functional as F
from torch import Tensor

from ..models.base import Model
from ..models.bert import BERT


def token_loss(
    model: Model, hidden: Tensor, targets: Tensor, weights: Tensor | None = None, smoothing: float = 0.0
) -> Tensor:
    """hidden (..., width), targets (...) -> the sum of cross-entropies in nats, each times its weight (...), if given.

    smoothing  this share of the probability that is aimed at is spread evenly over the whole vocabulary
    """
    logits = word_logits(model, hidden).float()
    losses = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none", label_smoothing=smoothing)
    return losses.sum() if weights is None else (losses * weights.flatten()).sum()


def word_logits(model: Model, hidden: Tensor) -> Tensor:
    """(..., width) -> (..., vocab). A BERT's head may answer more than words: here it is asked for them alone."""
    return model.masked_words(hidden, model.input.tokens) if isinstance(model, BERT) else model.head(hidden)
