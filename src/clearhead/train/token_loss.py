"""The loss of tokens, from hidden states: the head is applied here and nowhere else in training.

Next token, masked words, translation and span corruption all end in this one sum. A GPU multiplies by a padded
vocabulary, and cutting the logits back to the true one costs 4% of a GPT-2 step: here they stay uncut, the padding at
-inf, which no sum of probabilities notices.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..models.base import Model
from ..models.bert import BERT
from ..trace import recording


def token_loss(
    model: Model, hidden: Tensor, targets: Tensor, weights: Tensor | None = None, smoothing: float = 0.0
) -> Tensor:
    """hidden (..., width), targets (...) -> the sum of cross-entropies in nats, each times its weight (...), if given.

    smoothing  this share of the probability that is aimed at is spread evenly over the whole vocabulary
    """
    logits = word_logits(model, hidden, uncut=not recording()).float().flatten(0, -2)
    if smoothing:
        losses = smoothed(logits, targets.flatten(), smoothing, vocabulary_of(model))
    else:
        losses = F.cross_entropy(logits, targets.flatten(), reduction="none")
    return losses.sum() if weights is None else (losses * weights.flatten()).sum()


def smoothed(logits: Tensor, targets: Tensor, smoothing: float, vocab: int) -> Tensor:
    """logits (N, vocab or more), targets (N,) -> (N,). Columns behind the vocabulary are -inf and aimed at by none."""
    if logits.shape[-1] == vocab:
        return F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)
    chances = logits.log_softmax(-1)
    padding = torch.arange(logits.shape[-1], device=logits.device) >= vocab
    evenly = chances.masked_fill(padding, 0.0).sum(-1) / vocab
    return -(1 - smoothing) * chances.gather(-1, targets[:, None])[:, 0] - smoothing * evenly


def word_logits(model: Model, hidden: Tensor, uncut: bool = False) -> Tensor:
    """(..., width) -> (..., vocab). A BERT's head may answer more than words: here it is asked for them alone."""
    if isinstance(model, BERT):
        return model.masked_words(hidden, model.input.tokens, uncut)
    return model.head(hidden, uncut)  # pyright: ignore[reportCallIssue]


def vocabulary_of(model: Model) -> int:
    """How many words there are to choose from."""
    return getattr(model.config, "target_vocab", None) or model.config.vocab
