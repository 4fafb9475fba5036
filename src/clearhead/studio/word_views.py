"""What the words views compute, by `analyse`, from a model's token table and from sentences."""

import unicodedata
from typing import Literal

import torch
from torch import Tensor

from ..analyse import Neighbour, one_hot_row, pca, token_table, tsne, word_vectors
from ..analyse.neighbours import word_pieces
from ..errors import ClearheadError, shown
from ..layers import FixedPositions, LearnedPositions, SelfAttention
from ..models import Model
from ..models.t5 import T5
from ..ops import cosine, nearest
from ..ops.positions import rotary_angles
from .attention_views import points
from .refusals import Unknown
from .shelf import Opened
from .vocabulary import Speller
from .words_schema import NearWord, PlacedWord, TableRow, WordContexts, WordPlace, WordSpace

MOST_WORDS = {"pca": 5000, "tsne": 1000}
TSNE_STEPS = 500
MOST_NEIGHBOURS = 100
MOST_SENTENCES = 20
LONGEST_SENTENCE = 2000  # characters
LONGEST_WORD = 200
ROTARY_PLACES = 128

Kind = Literal["pca", "tsne"]


def speller(opened: Opened, side: str = "source") -> Speller:
    """What names the rows of the table; random weights that take their words from the input have no such names."""
    if opened.model.takes == ("image",):
        raise ClearheadError(f"a {opened.model.family} model reads pictures: it has no words")
    words = opened.words.of("")
    if words.note is not None:
        raise ClearheadError(f"{opened.card.name} has random weights and no vocabulary of its own: open a trained run")
    return words.target if side == "target" else words.source


def asked_words(opened: Opened, words: list[str], count: int, kind: Kind, side: str) -> tuple[int, ...]:
    """The numbers of the words that were named, or the `count` first of the vocabulary."""
    spells, most = speller(opened, side), MOST_WORDS[kind]
    rows = len(token_table(opened.model, side))
    if words:
        numbers = list(dict.fromkeys(_one_piece(spells, word) for word in words))
    else:
        if count < 1:
            raise ClearheadError(f"at least one word is placed, not {count}")
        numbers = _first(spells, rows)[:count]
    if len(numbers) > most:
        raise ClearheadError(f"{kind} places {most:,} words at most here, not {len(numbers):,}")
    return tuple(numbers)


def _first(spells: Speller, rows: int) -> list[int]:
    """Tokens that are words, of two letters or more; where a vocabulary has next to none, all but its marks."""
    named = [number for number in sorted(spells.spelt) if number not in spells.marks and number < rows]
    words = [number for number in named if _is_word(spells.piece(number))]
    return words if len(words) > 1 else named


def _is_word(piece: str) -> bool:
    plain = piece.lstrip(" ▁")
    return len(plain) > 1 and all(unicodedata.category(sign)[0] in "LM" for sign in plain)


def _one_piece(spells: Speller, word: str) -> int:
    checked_word(word)
    pieces = word_pieces(spells.tok, word)
    if len(pieces) != 1:
        raise ClearheadError(f"{shown(word, 40)!r} is {len(pieces)} tokens: the table has a row for each of them alone")
    return pieces[0]


def checked_word(word: str) -> str:
    if len(word) > LONGEST_WORD:
        raise ClearheadError(f"a word of {len(word):,} letters is longer than the {LONGEST_WORD} that are looked up")
    return word


def space(opened: Opened, kind: Kind, numbers: tuple[int, ...], side: str) -> WordSpace:
    table, spells = token_table(opened.model, side), speller(opened, side)
    rows, shares, left = table[list(numbers)], None, None
    if kind == "pca":
        flat = pca(rows)
        coordinates, shares = flat.coordinates, flat.shares.tolist()
    else:
        left = tsne(rows, steps=TSNE_STEPS)
        coordinates = left.coordinates
    return WordSpace(
        kind=kind,
        words=[
            PlacedWord(id=number, text=spells.shown(number), x=x, y=y)
            for number, (x, y) in zip(numbers, coordinates.tolist(), strict=True)
        ],
        shares=shares,
        divergence=None if left is None else left.divergence,
        perplexity=None if left is None else left.perplexity,
        of=len(spells.spelt),
    )


def near(opened: Opened, found: list[Neighbour], side: str) -> list[NearWord]:
    spells = speller(opened, side)
    return [NearWord(id=one.number, text=spells.shown(one.number), cosine=one.cosine) for one in found]


def near_number(opened: Opened, number: int, count: int, side: str) -> list[NearWord]:
    """As `near`, of one row of the table, whatever its token is spelt like; itself is left out."""
    table, spells = token_table(opened.model, side), speller(opened, side)
    if not 0 <= number < len(table):
        raise ClearheadError(f"tokens are numbered 0 to {len(table) - 1}: there is no {number}")
    others = [other for other in sorted(spells.spelt) if other < len(table) and other != number]
    cosines, places = nearest(table[number], table[others], count)
    return [
        NearWord(id=others[place], text=spells.shown(others[place]), cosine=value)
        for value, place in zip(cosines.tolist(), places.tolist(), strict=True)
    ]


def checked_count(count: int) -> int:
    if not 1 <= count <= MOST_NEIGHBOURS:
        raise ClearheadError(f"1 to {MOST_NEIGHBOURS} words are listed, not {count}")
    return count


def table_row(opened: Opened, token: str | int, side: str) -> TableRow:
    row = one_hot_row(opened.model, token, side)
    return TableRow(
        id=row.number,
        text=speller(opened, side).shown(row.number),
        rows=len(row.one_hot),
        width=len(row.looked_up),
        row=row.looked_up.tolist(),
        product=row.product.tolist(),
        largest_difference=(row.product - row.looked_up).abs().max().item(),
    )


def contexts(opened: Opened, word: str, sentences: list[str]) -> WordContexts:
    speller(opened)
    if len(sentences) > MOST_SENTENCES:
        raise ClearheadError(f"{len(sentences)} sentences are more than the {MOST_SENTENCES} that are compared")
    if any(len(one) > LONGEST_SENTENCE for one in sentences):
        raise ClearheadError(f"a sentence has more than {LONGEST_SENTENCE:,} letters: shorten it")
    found = word_vectors(opened.model, checked_word(word), sentences)
    count, along, width = found.layers.shape
    flat = pca(found.layers.reshape(-1, width))
    return WordContexts(
        word=word,
        places=[
            WordPlace(sentence=one.sentence, start=one.start, stop=one.stop, tokens=list(one.tokens))
            for one in found.occurrences
        ],
        points=points(along),
        static_cosines=found.static_cosines.tolist(),
        cosines=[found.cosines(point).tolist() for point in range(along)],
        to_static=[cosine(found.static[n : n + 1], found.layers[n])[0].tolist() for n in range(count)],
        path=flat.coordinates.reshape(count, along, 2).tolist(),
        static=flat.place(found.static).tolist(),
        shares=flat.shares.tolist(),
    )


def position_table(model: Model, side: str) -> tuple[str, Tensor]:
    """What tells this model where tokens stand, and its numbers: a row for every place, or for T5 every distance."""
    if isinstance(model, T5):
        return "relative", (model.decoder_bias if side == "target" else model.encoder_bias).weight.detach()
    part = getattr(model, side if "target" in model.takes else "input").positions
    if isinstance(part, LearnedPositions):
        return "learned", part.weight.detach()
    if isinstance(part, FixedPositions):
        return model.config.positions, part.get_buffer("table")
    turns = next((one.rotary for one in model.modules() if isinstance(one, SelfAttention) and one.rotary), None)
    if turns is None:
        raise Unknown("this model is told nothing about where tokens stand: there is no table to draw")
    places = torch.arange(min(getattr(model.config, "context", None) or ROTARY_PLACES, ROTARY_PLACES))
    return "rotary", rotary_angles(places, turns.width, base=turns.base)
