"""A word among tokens: how a vocabulary spells it, and where it stands in a row."""

from collections.abc import Sequence

from ..data import Tokenizer
from ..errors import ClearheadError

SPACES = (" ", "▁")  # how a token begins that begins a word, in vocabularies that keep spaces


def spellings(tok: Tokenizer, word: str) -> tuple[list[int], list[int]]:
    """A word's tokens without and with a space before it; none with, where the vocabulary can't say a space."""
    word = word.strip()
    if not word:
        raise ClearheadError("the word is empty: give one")
    try:
        return tok.ids(word, special=False), tok.ids(f" {word}", special=False)
    except ClearheadError:
        return tok.ids(word, special=False), []


def word_places(tok: Tokenizer, word: str, ids: Sequence[int]) -> list[tuple[int, int]]:
    """Where the word's tokens stand in a row, from and to: not within a longer word."""
    ways = [way for way in map(tuple, spellings(tok, word)) if way]
    if not ways:
        return []
    spaced = tok.pieces(ways[-1])[0].startswith(SPACES)
    ways = {way[1:] if len(way) > 1 and tok.pieces(way)[0] in SPACES else way for way in ways}
    names = ["", *tok.pieces(ids), ""]
    found = {
        (start, start + len(way))
        for way in ways
        for start in range(len(ids) - len(way) + 1)
        if tuple(ids[start : start + len(way)]) == way
        and not _goes_on(names[start], names[start + 1], spaced)
        and not _goes_on(names[start + len(way)], names[start + len(way) + 1], spaced)
    }
    return sorted(found)


def _goes_on(before: str, name: str, spaced: bool) -> bool:
    """Whether a token goes on with the word before it: `##ing`, or letters behind letters where words have spaces."""
    return before[-1:].isalnum() and name[:1].isalnum() if spaced else name.startswith("##")
