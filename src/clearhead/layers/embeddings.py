"""From ids to the rows a stack works on: token tables, and their positions added."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..trace import tap
from .dropout import dropped
from .linear import Linear, for_a_sum, linear

FEW = 512  # rows: a decoding step has no more; the limit itself is not measured
Positions = nn.Module  # called with (count, positions or None), gives the rows to add


class TokenEmbedding(nn.Module):
    """A table (vocab, width): one-hot times matrix, done as a lookup. As a head it is the same table, transposed."""

    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab, width))

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.weight)

    def logits(self, hidden: Tensor, bias: Tensor | None = None, uncut: bool = False) -> Tensor:
        return vocabulary_product(hidden, self.weight, bias, uncut)


class SharedTokens(TokenEmbedding):
    """The table of another input, used here too (source and target of an encoder-decoder).

    It has no weight of its own, so nothing is counted, filled, moved or saved twice.
    """

    def __init__(self, owner: TokenEmbedding) -> None:
        nn.Module.__init__(self)
        self.owner: tuple[Any] = (owner,)  # a tuple, because a module set on a module becomes its child

    @property
    def weight(self) -> nn.Parameter:
        return self.owner[0].weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.owner[0](ids)

    def logits(self, hidden: Tensor, bias: Tensor | None = None, uncut: bool = False) -> Tensor:
        return self.owner[0].logits(hidden, bias, uncut)


class VocabularyHead(Linear):
    """A head of its own (vocab, width), not tied to the embedding."""

    def forward(self, input: Tensor, uncut: bool = False) -> Tensor:
        return vocabulary_product(input, self.weight, self.bias, uncut)


def vocabulary_product(hidden: Tensor, weight: Tensor, bias: Tensor | None, uncut: bool = False) -> Tensor:
    """hidden (..., width) times weight^T -> (..., vocab).

    On a GPU the rows are padded to a multiple of 64 inside: an odd vocabulary such as 50,257 makes the product five
    times slower. The weight itself, its gradient and what is returned keep the published size, unless `uncut` asks for
    the padding's columns too. Those are -inf, words that can't be: a loss is the same with them, and saves the cut.
    The few rows of a decoding step go another way: to copy the table for them would take longer than the product.
    """
    vocab, missing = weight.shape[0], missing_rows(weight)
    if not missing or for_a_sum(hidden):
        return linear(hidden, weight, bias)
    if not uncut and not torch.is_grad_enabled() and hidden.numel() <= FEW * hidden.shape[-1]:
        return upright_product(hidden, weight, bias)
    padded = F.pad(weight, (0, 0, 0, missing))
    if uncut:
        known = weight.new_zeros(vocab) if bias is None else bias
        return F.linear(hidden, padded, F.pad(known, (0, missing), value=-math.inf))
    return F.linear(hidden, padded, None if bias is None else F.pad(bias, (0, missing)))[..., :vocab]


def upright_product(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """As (weight hidden^T)^T: the vocabulary is then how many rows the product has, which may be odd, not how long."""
    rows = hidden.flatten(0, -2)
    # one row needs no company: eight would take eight times the memory
    filled = rows if len(rows) == 1 else F.pad(rows, (0, 0, 0, -len(rows) % 8))
    product = (weight @ filled.T)[:, : len(rows)].T.unflatten(0, hidden.shape[:-1])
    return product if bias is None else product + bias


def missing_rows(weight: Tensor) -> int:
    """How many rows a GPU's product with a vocabulary is better off with."""
    return -weight.shape[0] % 64 if weight.is_cuda else 0


class TextInput(nn.Module):
    """Token rows, times `scale`, plus position rows, plus segment rows; then norm and dropout, if any."""

    def __init__(
        self,
        tokens: TokenEmbedding,
        positions: Positions | None,
        *,
        scale: float = 1.0,
        segments: TokenEmbedding | None = None,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.tokens, self.positions, self.segments, self.norm = tokens, positions, segments, norm
        self.scale, self.dropout = scale, dropout

    def forward(self, ids: Tensor, at: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """ids (B,L) -> (B,L,width); `at` (B,L) says where the tokens stand, 0..L-1 unless given."""
        x = tap("embedded", self.tokens(tap("ids", ids)))
        if self.scale != 1.0:
            x = tap("scaled", x * self.scale)
        if self.positions is not None:
            x = x + tap("positions", self.positions(ids.shape[1], at))
        if self.segments is not None:
            x = x + tap("segments", self.segments(torch.zeros_like(ids) if segments is None else segments))
        x = tap("summed", x)
        if self.norm is not None:
            x = self.norm(x)
        return to_working_type(dropped(x, self.dropout, self.training))


def to_working_type(x: Tensor) -> Tensor:
    """One cast to autocast's type before the stack, so that the residual stream stays in it."""
    return x.to(working_type(x))


def working_type(x: Tensor) -> torch.dtype:
    """The type that products of x are made in."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
