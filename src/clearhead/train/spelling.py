"""Words that are spelt alike share weights while they are learnt: Bojanowski et al. 2017, here in a model's own table.

Most words of a small text are rare, and a row of a table that is seen five times learns little. Here a word's row is
one of its own plus one for each piece of its spelling, three to six letters that several words have, over the root of
their number. Both the input and a tied head read it. Since all parts of a row move, it moves further than a plain one
at the same rate. `unspell` adds it all up: what is saved is a plain table.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from ..layers.embeddings import TokenEmbedding
from .lora import replace_layer

SHORTEST, LONGEST = 3, 6  # letters of a piece, the marks of a word's beginning and end among them
FEWEST = 3  # words that have a piece
PART = 64  # of a list, added up at once: WikiText-2 has one of 2,322 words, all of them for one block of a GPU


class SpeltTokens(TokenEmbedding):
    """A table (vocab, width) that is made anew from its parts whenever it is read."""

    def __init__(self, base: TokenEmbedding, spelling: "Spelling", random: Generator | None = None) -> None:
        nn.Module.__init__(self)
        half = math.sqrt(0.5)  # both parts together spread as widely as the table did
        spread = float(base.weight.detach().std())
        self.own = nn.Parameter(base.weight.detach() * half)
        self.pieces = nn.Parameter(base.weight.new_empty(spelling.count, base.weight.shape[1]))
        nn.init.normal_(self.pieces, 0.0, half * spread, random)
        for name, values in spelling.tensors().items():
            self.register_buffer(name, values, persistent=False)

    @property
    def weight(self) -> Tensor:
        there: Any = (self.found, self.shares, self.starts, self.parts)
        back: Any = (self.found_in, self.shares_in, self.starts_in, self.parts_in)
        return self.own + summed(self.pieces, *there, *back)


class Spelling:
    """Which pieces every word of a vocabulary has; a token that is no word has none."""

    def __init__(self, words: Sequence[str | None]) -> None:
        pieces = [[] if word is None else pieces_of(word) for word in words]
        often = Counter(chain.from_iterable(pieces))
        known = {piece: place for place, piece in enumerate(sorted(p for p in often if often[p] >= FEWEST))}
        self.count = len(known)
        self.words = [[known[piece] for piece in each if piece in known] for each in pieces]

    def tensors(self) -> dict[str, Tensor]:
        """For each word its pieces (see `_lists`); `..._in`: for each piece the words that have it."""
        shares = [1 / math.sqrt(max(1, len(pieces))) for pieces in self.words]
        back: list[list[tuple[int, float]]] = [[] for _ in range(self.count)]
        for word, pieces in enumerate(self.words):
            for piece in pieces:
                back[piece].append((word, shares[word]))
        there = [[(piece, shares[word]) for piece in pieces] for word, pieces in enumerate(self.words)]
        return _lists(there) | {f"{name}_in": values for name, values in _lists(back).items()}


def _lists(rows: Sequence[Sequence[tuple[int, float]]]) -> dict[str, Tensor]:
    """All lists one behind the other: what is found and what it counts, where each part starts, and which of the parts
    is a list's first."""
    cut = [[row[at : at + PART] for at in range(0, len(row), PART)] for row in rows]
    parts = [*chain.from_iterable(cut)]
    flat = [*chain.from_iterable(parts)]
    return {
        "found": torch.tensor([place for place, _ in flat], dtype=torch.long),
        "shares": torch.tensor([share for _, share in flat], dtype=torch.float32),
        "starts": _starts(parts),
        "parts": _starts(cut),
    }


def _starts(rows: Sequence[Sequence[Any]]) -> Tensor:
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
    return lengths.cumsum(0) - lengths


def pieces_of(word: str) -> list[str]:
    """Every run of three to six letters of <word>, once."""
    whole = f"<{word}>"
    runs = (whole[at : at + size] for size in range(SHORTEST, LONGEST + 1) for at in range(len(whole) - size + 1))
    return [*dict.fromkeys(runs)]


@torch.library.custom_op("clearhead::summed_pieces", mutates_args=())
def summed(
    rows: Tensor,
    found: Tensor,
    shares: Tensor,
    starts: Tensor,
    parts: Tensor,
    found_in: Tensor,
    shares_in: Tensor,
    starts_in: Tensor,
    parts_in: Tensor,
) -> Tensor:
    """rows (N,width), lists of them -> (M,width): each list's rows, times their shares, added up.

    The last four are the same the other way round. The way back is such a sum too, so nothing is added to one place
    by many at once, and no order is left to chance.
    """
    added = F.embedding_bag(found, rows, starts, mode="sum", per_sample_weights=shares.to(rows.dtype))
    return F.embedding_bag(torch.arange(len(starts), device=rows.device), added, parts, mode="sum")


@summed.register_fake
def _(rows: Tensor, found: Tensor, shares: Tensor, starts: Tensor, parts: Tensor, *_: Tensor) -> Tensor:
    return rows.new_empty(len(parts), rows.shape[1])


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


def _backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
    there, back = ctx.saved_tensors[:4], ctx.saved_tensors[4:]
    return summed(slopes.contiguous(), *back, *there), *(None for _ in ctx.saved_tensors)


summed.register_autograd(_backward, setup_context=_keep)


def spell(model: nn.Module, words: Sequence[str | None], random: Generator | None = None) -> int:
    """Let the model's table of tokens share weights by spelling, in place; how many pieces there are."""
    spelling = Spelling(words)
    for name, table in [*model.named_modules()]:
        if type(table) is TokenEmbedding:
            replace_layer(model, name, SpeltTokens(table, spelling, random))
    return spelling.count


def spelt(model: nn.Module) -> dict[str, SpeltTokens]:
    """The tables that share weights by spelling, by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, SpeltTokens)}


@torch.no_grad()
def unspell(model: nn.Module) -> None:
    """Put a plain table back, in place."""
    for name, table in spelt(model).items():
        plain = TokenEmbedding(*table.own.shape).to(table.own)
        plain.weight.copy_(table.weight)
        replace_layer(model, name, plain)
