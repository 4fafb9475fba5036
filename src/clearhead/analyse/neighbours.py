"""The space of words: whose rows of the token table are alike, analogies, and one-hot times table = row.

A word's static vector is its row of the table, the mean of its rows where it has several pieces.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..data import Tokenizer
from ..errors import ClearheadError
from ..layers import TokenEmbedding
from ..ops import nearest, one_hot
from ..runs import tokenizer
from ..tasks.words import spellings
from .answers import checked_model


@dataclass(frozen=True)
class Neighbour:
    """A token, its number, and the cosine of its row with what was asked."""

    token: str
    number: int
    cosine: float


@dataclass(frozen=True)
class Row:
    """A token's row, twice: looked up, and as one_hot (V,) times table (V,d)."""

    token: str
    number: int
    one_hot: Tensor
    looked_up: Tensor
    product: Tensor


def token_table(model: nn.Module, side: str = "source") -> Tensor:
    """(V,d), detached, in fp32 on the CPU. `side`: "source" or "target" of an encoder-decoder."""
    model = checked_model(model)
    if side not in ("source", "target"):
        raise ClearheadError(f"the side is source or target, not {side!r}")
    part = f"{side}.tokens" if "target" in model.takes else "input.tokens"
    try:
        table = model.get_submodule(part)
    except AttributeError:
        raise ClearheadError(f"a {model.family} model reads no words, so it has no table of them") from None
    assert isinstance(table, TokenEmbedding)
    return table.weight.detach().float().cpu()


def word_pieces(tok: Tokenizer, word: str) -> list[int]:
    """A word's tokens as they stand within a text: where words begin with their space, with it."""
    plain, spaced = spellings(tok, word)
    pieces = spaced if spaced and len(spaced) <= len(plain) else plain
    if len(pieces) != 1 and word in tok.vocabulary:
        return [tok.vocabulary[word]]
    unknown = tok.special.get("unk")
    if not pieces or (unknown in pieces and word != tok.roles.get("unk")):
        raise ClearheadError(f"{word!r} is not in this vocabulary of {tok.size} tokens")
    return pieces


def static_vector(model: nn.Module, word: str, side: str = "source") -> tuple[Tensor, list[int]]:
    """A word's vector (d,) and the numbers of its tokens."""
    table, pieces = token_table(model, side), word_pieces(_tokenizer(model, side), word)
    return table[pieces].mean(0), pieces


def nearest_words(model: nn.Module, word: str, count: int = 10, *, side: str = "source") -> list[Neighbour]:
    """The tokens whose rows are most like a word's, by cosine, best first; the word's own are left out."""
    vector, pieces = static_vector(model, word, side)
    return _nearest(model, vector, pieces, count, side)


def analogy(model: nn.Module, a: str, b: str, c: str, count: int = 10, *, side: str = "source") -> list[Neighbour]:
    """a - b + c: king - man + woman. Rows at length 1, as Mikolov et al. 2013; the three words are left out."""
    found = [static_vector(model, word, side) for word in (a, b, c)]
    plus, minus, more = (F.normalize(vector, dim=-1) for vector, _ in found)
    return _nearest(model, plus - minus + more, [piece for _, pieces in found for piece in pieces], count, side)


def _nearest(model: nn.Module, vector: Tensor, without: Sequence[int], count: int, side: str) -> list[Neighbour]:
    if type(count) is not int or count < 1:
        raise ClearheadError(f"at least one word is asked for, not {count!r}")
    table, tok = token_table(model, side), _tokenizer(model, side)
    named = {number for number in tok.vocabulary.values() if number < len(table)}
    rows = torch.tensor(sorted(named - set(without)))
    if not len(rows):
        raise ClearheadError("the vocabulary has no other words")
    cosines, places = nearest(vector, table[rows], count)
    numbers = rows[places].tolist()
    return [
        Neighbour(token, number, cosine)
        for token, number, cosine in zip(tok.pieces(numbers), numbers, cosines.tolist(), strict=True)
    ]


def one_hot_row(model: nn.Module, token: str | int, side: str = "source") -> Row:
    """A token by its number or spelling: a row of zeros with a single one, times the table, is the token's row."""
    table, tok = token_table(model, side), _tokenizer(model, side)
    number = _number(tok, token, len(table))
    hot = one_hot(torch.tensor(number), len(table))
    return Row(tok.pieces([number])[0], number, hot, table[number], hot @ table)


def _number(tok: Tokenizer, token: str | int, rows: int) -> int:
    if isinstance(token, str):
        pieces = word_pieces(tok, token)
        if len(pieces) != 1:
            raise ClearheadError(
                f"{token!r} is {len(pieces)} tokens ({' '.join(tok.pieces(pieces))}): give one of them"
            )
        return pieces[0]
    if not 0 <= token < rows:
        raise ClearheadError(f"tokens are numbered 0 to {rows - 1}: there is no {token}")
    return token


def _tokenizer(model: nn.Module, side: str) -> Tokenizer:
    model = checked_model(model)
    return tokenizer(model, side=side if "target" in model.takes else "source")
