"""Text to numbers and back: one class around the `tokenizers` library, whatever the kind of vocabulary."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path

import torch
from tokenizers import AddedToken, Encoding, decoders
from tokenizers import Tokenizer as Backend

from ..errors import ClearheadError, near
from ..files import write_json, write_text

# Every role a special token can have, and how such a token is customarily spelt.
ROLES: dict[str, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]"),
    "unk": ("<unk>", "[UNK]"),
    "cls": ("[CLS]",),
    "sep": ("[SEP]",),
    "mask": ("[MASK]", "<mask>"),
    "bos": ("<s>", "<start>", "<|endoftext|>"),
    "eos": ("</s>", "<end>", "<|endoftext|>"),
}


class Tokenizer:
    """A vocabulary with its rules: words in, numbers out, and back."""

    def __init__(self, backend: Backend, special: Mapping[str, str | AddedToken] | None = None):
        """`special` names tokens by role; they are recognised in a text and left out of decoded text."""
        self._tokens_by_role = {role: str(getattr(token, "content", token)) for role, token in (special or {}).items()}
        for role in self._tokens_by_role:
            if role not in ROLES:
                raise ClearheadError(
                    f"no role {role!r} for a special token: known are {', '.join(ROLES)}{near(role, ROLES)}"
                )
        known = _added(backend)
        backend.add_special_tokens([token for token in (special or {}).values() if str(token) not in known])
        backend.no_truncation()  # files remember how they were last used; here every text is encoded whole
        backend.no_padding()
        self._backend = backend

    def __repr__(self) -> str:
        return f"Tokenizer({self.size} tokens, special {self._tokens_by_role})"

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """Every token with its number, in the order of the numbers."""
        return dict(sorted(self._backend.get_vocab(with_added_tokens=True).items(), key=lambda item: item[1]))

    @property
    def definition(self) -> str:
        """All that decides which numbers a text gets, as tokenizer.json holds it."""
        return self._backend.to_str()

    @property
    def size(self) -> int:
        """How many rows an embedding needs: one more than the largest number."""
        return max(self.vocabulary.values(), default=-1) + 1

    @property
    def roles(self) -> dict[str, str]:
        """The special tokens by role, as the vocabulary spells them."""
        return dict(self._tokens_by_role)

    @property
    def special(self) -> dict[str, int]:
        """The numbers of the special tokens by role: pad, unk, cls, sep, mask, bos, eos, as far as there are any."""
        return {role: self.vocabulary[token] for role, token in self._tokens_by_role.items()}

    def ids(self, text: str, *, special: bool = True) -> list[int]:
        """The numbers of a text; `special` adds what the model expects around it ([CLS], </s> ...), if anything."""
        return self._encode([text], special)[0].ids

    def tokens(self, text: str, *, special: bool = True) -> list[str]:
        """The tokens of a text as the vocabulary spells them (`Ġworld`, `##ing`)."""
        return self._encode([text], special)[0].tokens

    def pair(self, first: str, second: str) -> tuple[list[int], list[int]]:
        """The numbers of two texts as one input, and for each whether it belongs to the first (0) or the second (1)."""
        encoding = self._encode([(first, second)], True)[0]
        return encoding.ids, encoding.type_ids

    def offsets(self, first: str, second: str) -> list[tuple[int, int] | None]:
        """For each token of `pair` where in the second text it stands, from character to character; else None."""
        encoding = self._encode([(first, second)], True)[0]
        return [
            place if text == 1 else None for place, text in zip(encoding.offsets, encoding.sequence_ids, strict=True)
        ]

    def batch(self, texts: Sequence[str], *, special: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
        """Texts of any lengths as ids (B, L), filled up on the right, and their lengths (B,).

        Filled with the pad token, or with 0 where there is none: only the lengths say what is text.
        """
        if not texts:
            raise ClearheadError("no texts to make a batch of")
        rows = [torch.tensor(encoding.ids, dtype=torch.int64) for encoding in self._encode(texts, special)]
        filled = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=self.special.get("pad", 0))
        return filled, torch.tensor([len(row) for row in rows])

    def text(self, ids: Iterable[int], skip_special: bool = True) -> str:
        """The text that numbers stand for."""
        return self._backend.decode(self._checked(ids), skip_special_tokens=skip_special)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """What each number stands for by itself, as a person reads it; the bytes of a split letter as `\\xe0\\xa4`."""
        tokens = [self._names[index] for index in self._checked(ids)]
        if not isinstance(self._backend.decoder, decoders.ByteLevel):
            return tokens
        added = _added(self._backend)
        return [token if token in added else _readable(token) for token in tokens]

    def save(self, folder: str | PathLike[str]) -> None:
        """Write `tokenizer.json` and `tokenizer_config.json`, from which transformers makes the same tokenizer."""
        # Without this list transformers hands segment ids to GPT-2, which adds them to its embeddings as tokens.
        segments = ["token_type_ids"] if "cls" in self._tokens_by_role else []
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_input_names": ["input_ids", *segments, "attention_mask"],
            "clean_up_tokenization_spaces": False,
            **{f"{role}_token": token for role, token in self._tokens_by_role.items()},
        }
        write_text(Path(folder) / "tokenizer.json", self._backend.to_str(pretty=True))
        write_json(Path(folder) / "tokenizer_config.json", config)

    @cached_property
    def _names(self) -> dict[int, str]:
        return {index: token for token, index in self.vocabulary.items()}

    def _checked(self, ids: Iterable[int]) -> list[int]:
        numbers = [int(index) for index in ids]
        for index in numbers:
            if index not in self._names:
                raise ClearheadError(f"no token has the number {index}: this vocabulary has {self.size}, from 0")
        return numbers

    def _encode(self, inputs: Sequence[str | tuple[str, str]], special: bool) -> list[Encoding]:
        try:
            return self._backend.encode_batch(list(inputs), add_special_tokens=special)
        except Exception as error:  # the library raises nothing narrower
            raise ClearheadError(self._why_not(inputs, error)) from None

    def _why_not(self, inputs: Sequence[str | tuple[str, str]], error: Exception) -> str:
        """Name the part of a text that this vocabulary can't say."""
        between_added = re.compile("|".join(map(re.escape, _added(self._backend))) or "(?!)")
        for text in (part for given in inputs for part in ([given] if isinstance(given, str) else given)):
            check_unicode(text)
            stretches = between_added.split(text) if self._backend.pre_tokenizer else ()
            for part, _ in (
                piece for stretch in stretches for piece in self._backend.pre_tokenizer.pre_tokenize_str(stretch)
            ):
                if part not in self.vocabulary:
                    return f"{part!r} is not in this vocabulary of {self.size}, and it has no token for the unknown"
        return f"the text can't be encoded: {first_line(error)}"


def _added(backend: Backend) -> list[str]:
    """The tokens that are looked for in a text before it is split."""
    return [token.content for token in backend.get_added_tokens_decoder().values()]


def _byte_letters() -> dict[str, int]:
    """GPT-2's letter for each byte: itself where it is visible in Latin-1, else the next free one from 256 on."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + place): byte for place, byte in enumerate(hidden)}


BYTE_LETTERS = _byte_letters()


def _readable(token: str) -> str:
    if not BYTE_LETTERS.keys() >= set(token):
        return token
    return bytes(BYTE_LETTERS[letter] for letter in token).decode("utf-8", errors="backslashreplace")


def check_unicode(text: str) -> None:
    """Refuse what Python allows in a string and no text has: half a surrogate pair, the trace of a wrong decoding."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        where = f"{text[error.start]!r} at position {error.start}"
        raise ClearheadError(f"the text has half a surrogate pair in it ({where}), which is no character") from None


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
