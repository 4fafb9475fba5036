"""A tokenizer learnt from texts: characters, words, byte-level BPE or WordPiece, by the `tokenizers` library.

The same texts give the same tokenizer, number by number. `save` writes it in the form that transformers reads.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from ..errors import ClearheadError, near
from .tokenizers import ROLES, Tokenizer, check_unicode
from .wordpiece import SPECIAL as BERT_SPECIAL
from .words import character_tokenizer, word_tokenizer

KINDS = ("characters", "words", "bpe", "wordpiece")
DEFAULT_SIZE = {"characters": 0x110000, "words": 10_000, "bpe": 8_192, "wordpiece": 8_192}
_BYTES = {"pad": "<pad>", "bos": "<s>", "eos": "</s>"}
_PIECES = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>"}
DEFAULT_SPECIAL: Mapping[str, Mapping[str, str]] = {
    "characters": _PIECES,
    "words": _PIECES,
    "bpe": _BYTES,
    "wordpiece": {role: BERT_SPECIAL[role] for role in ROLES if role in BERT_SPECIAL},
}


def learn_tokenizer(
    texts: Iterable[str],
    kind: str,
    size: int | None = None,
    special: Mapping[str, str] | None = None,
    *,
    lowercase: bool = False,
    closing: bool = False,
) -> Tokenizer:
    """Learn a vocabulary of at most `size` tokens, the special ones included.

    `special` names tokens by role; without it WordPiece has BERT's, the others <pad>, <s>, </s> and, but for BPE,
    which can say every byte, <unk>. Characters: all of them, or the most frequent. Words: the most frequent. WordPiece
    puts [CLS] and [SEP] around a text where it has them; `closing` puts the "eos" token behind each text, as T5 and
    translation want it.
    """
    if kind not in KINDS:
        raise ClearheadError(f"no kind of tokenizer {kind!r}: take {', '.join(KINDS)}{near(kind, KINDS)}")
    special = dict(DEFAULT_SPECIAL[kind] if special is None else special)
    for role in special:
        if role not in ROLES:
            raise ClearheadError(f"no role {role!r} for a special token{near(role, ROLES)}")
    lines = [texts] if isinstance(texts, str) else list(texts)
    if not any(lines):
        raise ClearheadError("a tokenizer can't be learnt from nothing: there is no text")
    for line in lines:
        check_unicode(line)
    limit = DEFAULT_SIZE[kind] if size is None else size
    if limit <= len(special):
        raise ClearheadError(f"a vocabulary of {limit} has no room beside its {len(special)} special tokens")
    if lowercase and kind in ("characters", "words"):
        raise ClearheadError(f"lower-casing is for bpe and wordpiece: give {kind} texts in lower case instead")
    learn = {"characters": _characters, "words": _words, "bpe": _bpe, "wordpiece": _wordpiece}[kind]
    return _closed(learn(lines, limit, special, lowercase), special, closing)


def _characters(lines: list[str], limit: int, special: dict[str, str], lowercase: bool) -> Tokenizer:
    counts = Counter(letter for line in lines for letter in line)
    return character_tokenizer(_most_frequent(counts, limit, special), special=special)


def _words(lines: list[str], limit: int, special: dict[str, str], lowercase: bool) -> Tokenizer:
    every = word_tokenizer(lines, special=special)
    names = {number: word for word, number in every.vocabulary.items()}
    counts = Counter(number for line in lines for number in every.ids(line))
    words = Counter({names[number]: count for number, count in counts.items() if names[number] not in special.values()})
    return word_tokenizer(vocabulary=_most_frequent(words, limit, special), special=special)


def _most_frequent(counts: Counter[str], limit: int, special: dict[str, str]) -> list[str]:
    """As many as there is room for, the most frequent first, equally frequent ones in the order of their letters."""
    room = limit - len(set(special.values()))
    kept = sorted(counts, key=lambda token: (-counts[token], token))[:room]
    if len(kept) < len(counts) and "unk" not in special:
        over = f"{len(counts) - len(kept)} of {len(counts)} tokens don't fit into {limit}"
        raise ClearheadError(f"{over}: give an 'unk' token, or more room")
    return kept


def _bpe(lines: list[str], limit: int, special: dict[str, str], lowercase: bool) -> Tokenizer:
    """Over bytes, as GPT-2 has it: every text can be said, so nothing is unknown."""
    backend = Backend(models.BPE())
    if lowercase:
        backend.normalizer = normalizers.Lowercase()  # pyright: ignore[reportAttributeAccessIssue]
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    backend.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    _room(limit, len(alphabet), special)
    trainer = trainers.BpeTrainer(
        vocab_size=limit,
        special_tokens=list(dict.fromkeys(special.values())),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    backend.train_from_iterator(lines, trainer)
    return Tokenizer(backend, special)


def _wordpiece(lines: list[str], limit: int, special: dict[str, str], lowercase: bool) -> Tokenizer:
    """As BERT splits. The library numbers letters inside words as a hash table yields them: here they come sorted."""
    if "unk" not in special:
        raise ClearheadError("a WordPiece tokenizer needs a special token 'unk'")
    backend = Backend(models.WordPiece(unk_token=special["unk"]))
    normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=False)
    backend.normalizer = normalizer  # pyright: ignore[reportAttributeAccessIssue]
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # pyright: ignore[reportAttributeAccessIssue]
    letters = sorted({letter for line in lines for letter in normalizer.normalize_str(line)} - {" "})
    inner = [f"##{letter}" for letter in letters if not _stands_alone(letter)]
    first = list(dict.fromkeys([*special.values(), *letters, *inner]))
    _room(limit, len(first) - len(special), special)
    trainer = trainers.WordPieceTrainer(vocab_size=limit, special_tokens=first, show_progress=False)
    backend.train_from_iterator(lines, trainer)
    numbers = backend.get_vocab()
    learnt = Backend(models.WordPiece(numbers, unk_token=special["unk"]))
    learnt.normalizer, learnt.pre_tokenizer = backend.normalizer, backend.pre_tokenizer
    learnt.decoder = decoders.WordPiece(prefix="##")  # pyright: ignore[reportAttributeAccessIssue]
    if "cls" in special and "sep" in special:
        cls, sep = special["cls"], special["sep"]
        learnt.post_processor = processors.TemplateProcessing(  # pyright: ignore[reportAttributeAccessIssue]
            single=[f"{cls}:0", "$A:0", f"{sep}:0"],
            pair=[f"{cls}:0", "$A:0", f"{sep}:0", "$B:1", f"{sep}:1"],
            special_tokens=[(token, numbers[token]) for token in (cls, sep)],
        )
    return Tokenizer(learnt, special)


def _stands_alone(letter: str) -> bool:
    """BERT parts words at white space and punctuation: these are never inside a word."""
    return (
        letter.isspace() or unicodedata.category(letter).startswith("P") or (letter.isascii() and not letter.isalnum())
    )


def _room(limit: int, letters: int, special: dict[str, str]) -> None:
    if limit < letters + len(special):
        needed = f"{letters} for single letters and {len(special)} special ones"
        raise ClearheadError(f"a vocabulary of {limit} is too small: it needs {needed}")


def _closed(tokenizer: Tokenizer, special: dict[str, str], closing: bool) -> Tokenizer:
    """The same tokenizer, with the "eos" token behind every text."""
    if not closing:
        return tokenizer
    if "eos" not in special or "cls" in special:
        raise ClearheadError("closing a text needs a special token 'eos', and none that is 'cls'")
    eos = special["eos"]
    backend = Backend.from_str(tokenizer.definition)
    backend.post_processor = processors.TemplateProcessing(  # pyright: ignore[reportAttributeAccessIssue]
        single=["$A:0", f"{eos}:0"],
        pair=["$A:0", f"{eos}:0", "$B:1", f"{eos}:1"],
        special_tokens=[(eos, tokenizer.special["eos"])],
    )
    return Tokenizer(backend, special)
