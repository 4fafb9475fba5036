"""The loss of tokens, from hidden states: the head is applied here and nowhere else in training.

Next token, masked words, translation and span corruption all end in this one sum. A GPU multiplies by a padded
vocabulary, and cutting the logits back to the true one costs 4% of a GPT-2 step: here they stay uncut, the padding at
-inf, which no sum of probabilities notices. Where a GPU trains a plain table of many words, it does not even keep them:
product and loss are one step then (vocabulary_loss.py).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import ClearheadError
from ..layers.embeddings import SharedTokens, TokenEmbedding, VocabularyHead, working_type
from ..models.base import Model
from ..models.bert import BERT
from ..models.gpt import GPT
from ..models.t5 import T5
from ..models.transformer import Transformer
from ..ops.float8 import can_multiply
from ..ops.kernels import has_kernel
from ..trace import recording
from .spelling import SpeltTokens
from .vocabulary_loss import Product, vocabulary_loss

MANY = 4096  # words: fewer fill no program of the kernel (2,048 lanes); the limit itself is not measured


def token_loss(
    model: Model, hidden: Tensor, targets: Tensor, weights: Tensor | None = None, smoothing: float = 0.0
) -> Tensor:
    """hidden (..., width), targets (...) -> the sum of cross-entropies in nats, each times its weight (...), if given.

    smoothing  this share of the probability that is aimed at is spread evenly over the whole vocabulary
    """
    if in_one_step(model, hidden) and (product := last_product(model, hidden)) is not None:
        counts = None if weights is None else weights.flatten()
        return vocabulary_loss(*product, targets.flatten(), counts, smoothing, model.float8)
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


def in_one_step(model: Model, hidden: Tensor) -> bool:
    """Whether product and loss may be one: for gradients, where nobody looks at the logits, and a GPU has the kernel.

    In fp16 the slopes of rare words would vanish, as they are not scaled before the way back.
    """
    if not hidden.is_cuda or not torch.is_grad_enabled() or recording() or vocabulary_of(model) < MANY:
        return False
    return working_type(hidden) in (torch.bfloat16, torch.float32) and has_kernel("token_losses")


def set_float8(model: Model, device: torch.device) -> None:
    """The head's product is in 8 bits while the model learns; where it can't be, that is an error."""
    if not isinstance(model, GPT | T5 | Transformer) or vocabulary_of(model) < MANY:
        raise ClearheadError(f"precision=fp8 is for heads over at least {MANY:,} words: take bf16")
    if device.type != "cuda" or not can_multiply(device) or not has_kernel("token_losses"):
        raise ClearheadError(f"precision=fp8 needs a GPU with products in 8 bits, and Triton: take bf16 on {device}")
    if model.config.width % 16:
        raise ClearheadError(f"precision=fp8 needs a width that is a multiple of 16, not {model.config.width}")
    model.float8 = True


def last_product(model: Model, hidden: Tensor) -> Product | None:
    """What a head multiplies (N,width), by which table (vocab,width), and the bias it adds; None: no plain table."""
    match model:
        case GPT():
            table, bias = model.input.tokens if model.output is None else model.output, None
        case T5():
            table, bias = model.source.tokens if model.output is None else model.output, None
            hidden = hidden * model.config.width**-0.5 if model.config.output_scaled else hidden
        case Transformer():
            table, bias = model.output, model.output_bias
        case _:
            return None
    while isinstance(table, SharedTokens):
        table = table.owner[0]
    plain = type(table) in (TokenEmbedding, SpeltTokens, VocabularyHead)  # neither in 8 bits nor adapted
    return (hidden.flatten(0, -2), table.weight, bias) if plain else None


def word_logits(model: Model, hidden: Tensor, uncut: bool = False) -> Tensor:
    """(..., width) -> (..., vocab). A BERT's head may answer more than words: here it is asked for them alone."""
    if isinstance(model, BERT):
        return model.masked_words(hidden, model.input.tokens, uncut)
    return model.head(hidden, uncut)  # pyright: ignore[reportCallIssue]


def vocabulary_of(model: Model) -> int:
    """How many words there are to choose from."""
    return getattr(model.config, "target_vocab", None) or model.config.vocab
