"""The words of a model: its own tokenizers; with random weights and none at hand, the decks' words and then yours."""

from dataclasses import dataclass
from functools import cached_property

from tokenizers import Tokenizer as Backend
from tokenizers import processors

from ..data import DECK_WORDS, Tokenizer, word_tokenizer
from ..models import Model
from ..runs import tokenizer
from ..runs.inputs import BUILT_IN
from .schema import Token

VISIBLE = str.maketrans({" ": "␣", "▁": "␣", "\n": "⏎", "\t": "⇥"})
MARKS = {"pad": "<pad>", "eos": "<end>", "unk": "<unk>", "bos": "<start>"}
BERT_MARKS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}


class Speller:
    """A tokenizer that also says how each of its tokens is written, shown, and where it stood."""

    def __init__(self, tok: Tokenizer) -> None:
        self.tok = tok

    @cached_property
    def spelt(self) -> dict[int, str]:
        return {number: token for token, number in self.tok.vocabulary.items()}

    @cached_property
    def marks(self) -> frozenset[int]:
        return frozenset(self.tok.special.values())

    def shown(self, number: int) -> str:
        """As a person reads it, spaces made visible; `#5` for a number that the vocabulary lacks."""
        return self.tok.pieces([number])[0].translate(VISIBLE) if number in self.spelt else f"#{number}"

    def piece(self, number: int) -> str:
        return self.tok.pieces([number])[0] if number in self.spelt else f"#{number}"

    def token(self, number: int, where: tuple[int, int] | None = None) -> Token:
        start, end = where or (None, None)
        special = number in self.marks
        text = self.spelt.get(number, f"#{number}")
        return Token(id=number, text=text, shown=self.shown(number), start=start, end=end, special=special)

    def row(self, text: str, *, special: bool = True) -> list[Token]:
        """The tokens of a text, with what the model expects around it."""
        numbers = self.tok.ids(text, special=special)
        return [self.token(*pair) for pair in zip(numbers, self._places(text, numbers), strict=True)]

    def pair(self, first: str, second: str) -> tuple[list[Token], list[int]]:
        """Two texts as one row, and for each token to which of the two it belongs. Places count within each text."""
        numbers, segments = self.tok.pair(first, second)
        of_second = self.tok.offsets(first, second)
        whole = [second or first for first, second in zip(self._places(first, numbers), of_second, strict=True)]
        return [self.token(*pair) for pair in zip(numbers, whole, strict=True)], segments

    def _places(self, text: str, numbers: list[int]) -> list[tuple[int, int] | None]:
        """Where in the text each token of the row stands, from character to character; None around it."""
        plain = self.tok.ids(text, special=False)
        found = [where for where in self.tok.offsets("", text) if where is not None]
        starts = range(len(numbers) - len(plain) + 1)
        start = next((n for n in starts if numbers[n : n + len(plain)] == plain), None)
        if start is None or len(found) != len(plain):
            return [None] * len(numbers)
        return [*[None] * start, *found, *[None] * (len(numbers) - start - len(plain))]


@dataclass(frozen=True)
class Vocabulary:
    """What reads a model's input, what reads and writes its output, and what to know about them."""

    source: Speller
    target: Speller
    note: str | None = None


class Words:
    """The vocabulary of one opened model. Trained ones have theirs; random ones take the words of the input."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @cached_property
    def _own(self) -> Vocabulary | None:
        if self.model.origin.random and self.model.origin.name not in BUILT_IN:
            return None
        source = Speller(tokenizer(self.model))
        both = self.model.takes == ("source", "target")
        return Vocabulary(source, Speller(tokenizer(self.model, side="target")) if both else source)

    def of(self, *texts: str) -> Vocabulary:
        if self._own is not None:
            return self._own
        speller = Speller(numbered_words(self.model, texts))
        note = f"{self.model.origin.name} has random weights and no vocabulary: the decks' words and yours are numbered"
        return Vocabulary(speller, speller, note)


def numbered_words(model: Model, texts: tuple[str, ...]) -> Tokenizer:
    """The decks' words first, then those of the texts as they appear, as many as the model has rows for."""
    marks = BERT_MARKS if model.family == "bert" else MARKS
    seen = " ".join(texts)
    for mark in marks.values():
        seen = seen.replace(mark, " ")
    new = word_tokenizer(seen).vocabulary if seen.strip() else {}
    words = dict.fromkeys((*DECK_WORDS, *new))
    room = model.config.vocab - len(marks)
    tok = word_tokenizer(vocabulary=list(words)[:room], special=marks)
    return _framed(tok) if model.family == "bert" else tok


def _framed(tok: Tokenizer) -> Tokenizer:
    """[CLS] before a text and [SEP] behind it, as every BERT expects."""
    backend = Backend.from_str(tok.definition)
    cls, sep = (tok.roles[role] for role in ("cls", "sep"))
    backend.post_processor = processors.TemplateProcessing(  # pyright: ignore[reportAttributeAccessIssue]
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(cls, tok.special["cls"]), (sep, tok.special["sep"])],
    )
    return Tokenizer(backend, tok.roles)
