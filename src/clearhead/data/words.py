"""Our own vocabularies: one token per character or per word, saved in the same form as everybody else's."""

from collections.abc import Iterable, Mapping

from tokenizers import Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from ..errors import ClearheadError
from .tokenizers import Tokenizer, check_unicode

# Letters with their marks (Devanagari writes its vowels as marks, and joins with U+200C and U+200D), apostrophes
# inside a word, and every other visible character by itself.
_LETTERS = r"[\p{L}\p{M}\p{N}_\x{200c}\x{200d}]+"
_WORD = Regex(rf"{_LETTERS}(?:['’]{_LETTERS})*|\S")
_CHARACTER = Regex(r"[\s\S]")

DECK_WORDS = (
    *("This", "is", "Computer", "Vision", "Class"),
    *("I", "love", "like", "artificial", "computational", "intelligence"),
    *("Hi", "how", "are", "you"),
    *("The", "animal", "didn't", "cross", "the", "street", "because", "it", "was", "too", "tired"),
)


def word_tokenizer(
    texts: str | Iterable[str] | None = None,
    *,
    vocabulary: Iterable[str] | None = None,
    special: Mapping[str, str] | None = None,
) -> Tokenizer:
    """One token per word or punctuation mark, upper and lower case told apart.

    The words are those of `texts` as first seen, or exactly `vocabulary` in its order. `special` names tokens by role,
    such as {"unk": "<unk>"}, which come first unless the vocabulary places them. Without an "unk" an unknown word is
    an error.
    """
    split = pre_tokenizers.Split(_WORD, behavior="removed", invert=True)
    if (texts is None) == (vocabulary is None):
        raise ClearheadError("a word tokenizer is made from texts or from a vocabulary: give one of them")
    if vocabulary is None:
        texts = [texts] if isinstance(texts, str) else texts or ()
        words = list(dict.fromkeys(word for text in texts for word in _parts(split, text)))
    else:
        words = list(vocabulary)
        for word in words:
            if _parts(split, word) != [word] and word not in (special or {}).values():
                raise ClearheadError(f"{word!r} is not one word: a text is split at spaces and around punctuation")
    # This decoder puts spaces between words, but none before , . ! ?
    return _level(words, special, split, decoders.WordPiece(prefix="##", cleanup=True))


def character_tokenizer(text: str | Iterable[str], *, special: Mapping[str, str] | None = None) -> Tokenizer:
    """One token per Unicode code point: those of a text or an alphabet as first seen, after the `special` ones.

    Without an "unk" among the special tokens an unknown character is an error.
    """
    letters = list(dict.fromkeys(letter for part in text for letter in part))
    check_unicode("".join(letters))
    return _level(letters, special, pre_tokenizers.Split(_CHARACTER, behavior="isolated"), decoders.Fuse())


def deck_tokenizer() -> Tokenizer:
    """The vocabulary of the lecture's example sentences, for the model `deck`."""
    special = {"pad": "<pad>", "unk": "<unk>", "bos": "<start>", "eos": "<end>"}
    return word_tokenizer(vocabulary=DECK_WORDS, special=special)


def _parts(split: pre_tokenizers.PreTokenizer, text: str) -> list[str]:
    check_unicode(text)
    return [part for part, _ in split.pre_tokenize_str(text)]


def _level(
    tokens: list[str],
    special: Mapping[str, str] | None,
    split: pre_tokenizers.PreTokenizer,
    decoder: decoders.Decoder,
) -> Tokenizer:
    """A tokenizer that looks up whole pieces: the model that all of ours share."""
    special = special or {}
    listed = [*(token for token in dict.fromkeys(special.values()) if token not in tokens), *tokens]
    numbers = {token: number for number, token in enumerate(listed)}
    if not tokens:
        raise ClearheadError("a vocabulary can't be made of nothing: the text is empty")
    if len(numbers) < len(listed):
        twice = next(token for number, token in enumerate(listed) if numbers[token] != number)
        raise ClearheadError(f"{twice!r} is in the vocabulary twice")
    # The library wants a name here in any case; one that the vocabulary lacks makes an unknown piece an error.
    backend = Backend(models.WordLevel(numbers, unk_token=special.get("unk", "<unk>")))
    backend.pre_tokenizer = split  # pyright: ignore[reportAttributeAccessIssue]
    backend.decoder = decoder  # pyright: ignore[reportAttributeAccessIssue]
    return Tokenizer(backend, special)
