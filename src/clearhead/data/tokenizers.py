"""Text to numbers and back: one class around the `tokenizers` library, and readers for the files that models come with.

Read are `tokenizer.json` and GPT-2's two files under both their names (`vocab.json` + `merges.txt`, and OpenAI's
`encoder.json` + `vocab.bpe`). Which token has which role is taken from the files beside it, in this order:
`tokenizer_config.json`, `special_tokens_map.json`, the ids in `config.json`, and last the customary spellings.
Only files with these fixed names are opened.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Encoding, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from clearhead.data.files import read_json, read_optional_json, read_text, write_json, write_text
from clearhead.errors import ClearheadError, near

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
                raise ClearheadError(f"no role {role!r} for a special token: known are {', '.join(ROLES)}{near(role, ROLES)}")
        known = {token.content for token in backend.get_added_tokens_decoder().values()}
        new = [token for role, token in (special or {}).items() if self._tokens_by_role[role] not in known]
        backend.add_special_tokens(new)
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
    def size(self) -> int:
        """How many rows an embedding needs: one more than the largest number."""
        return max(self.vocabulary.values(), default=-1) + 1

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
        added = {token.content for token in self._backend.get_added_tokens_decoder().values()}
        return [token if token in added else _readable(token) for token in tokens]

    def save(self, folder: str | PathLike[str]) -> None:
        """Write `tokenizer.json` and `tokenizer_config.json`, from which transformers' AutoTokenizer makes the same one."""
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
        for text in (part for given in inputs for part in ([given] if isinstance(given, str) else given)):
            check_unicode(text)
            split = self._backend.pre_tokenizer.pre_tokenize_str(text) if self._backend.pre_tokenizer else []
            for part, _ in split:
                if part not in self.vocabulary:
                    return f"{part!r} is not among the {self.size} tokens of this vocabulary, and it has none for the unknown"
        return f"the text can't be encoded: {_first_line(error)}"


def read_tokenizer(path: str | PathLike[str]) -> Tokenizer:
    """The tokenizer of a model's folder, or of a `tokenizer.json` file."""
    path = Path(path)
    if path.is_file():
        return _with_roles(_read_backend(path), path.parent)
    if not path.is_dir():
        raise ClearheadError(f"{path} does not exist: give a model's folder or a tokenizer.json")
    if (path / "tokenizer.json").exists():
        return _with_roles(_read_backend(path / "tokenizer.json"), path)
    pairs = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
    for vocabulary, merges in pairs:
        if (path / vocabulary).exists() and (path / merges).exists():
            return _with_roles(_read_byte_level(path / vocabulary, path / merges), path)
    wanted = ["tokenizer.json", *(" + ".join(pair) for pair in pairs)]
    raise ClearheadError(f"{path} has no tokenizer: looked for {', '.join(wanted)}")


def _read_backend(path: Path) -> Backend:
    text = read_text(path)
    try:
        return Backend.from_str(text)
    except Exception as error:  # the library raises nothing narrower
        raise ClearheadError(f"{path} is not a tokenizer that the tokenizers library reads: {_first_line(error)}") from None


def _read_byte_level(vocabulary_file: Path, merges_file: Path) -> Backend:
    """GPT-2's own form: a vocabulary over 256 letters that stand for bytes, and the list of merges in their order."""
    vocabulary = read_json(vocabulary_file)
    numbers = list(vocabulary.values())
    if any(type(number) is not int for number in numbers) or sorted(numbers) != list(range(len(numbers))):
        raise ClearheadError(f"{vocabulary_file} is not a vocabulary: its values must be 0 to {len(numbers) - 1}, each once")
    if missing := _BYTES.keys() - vocabulary.keys():
        raise ClearheadError(
            f"{vocabulary_file} is not GPT-2's byte-level form: {len(missing)} of its 256 byte letters are missing"
        )
    merges = _read_merges(merges_file)
    try:
        backend = Backend(models.BPE(vocab=vocabulary, merges=merges))
    except Exception as error:  # the library raises nothing narrower
        raise ClearheadError(f"{merges_file} does not fit {vocabulary_file.name}: {_first_line(error)}") from None
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    backend.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    if "<|endoftext|>" in vocabulary:
        backend.add_special_tokens(["<|endoftext|>"])
    return backend


def _read_merges(path: Path) -> list[tuple[str, str]]:
    lines = read_text(path).split("\n")
    first = 1 if lines[0].startswith("#version") else 0
    merges = []
    for number, line in enumerate(lines[first:], start=first + 1):
        if line.strip():
            left, _, right = line.strip().partition(" ")
            if not right or " " in right:
                raise ClearheadError(f"{path} line {number} is not a merge of two tokens: {line[:40]!r}")
            merges.append((left, right))
    return merges


def _with_roles(backend: Backend, folder: Path) -> Tokenizer:
    """Find out what the special tokens are for. The module's docstring has the order of the sources."""
    special = {token.content: index for index, token in backend.get_added_tokens_decoder().items() if token.special}
    by_id = {index: token for token, index in special.items()}
    named = [read_optional_json(folder / name) for name in ("tokenizer_config.json", "special_tokens_map.json")]
    numbered = read_optional_json(folder / "config.json")
    roles: dict[str, str | AddedToken] = {}
    for role, customary in ROLES.items():
        candidates = [_named_token(source.get(f"{role}_token")) for source in named]
        number = numbered.get(f"{role}_token_id")
        candidates.append(by_id.get(number) if isinstance(number, int) else None)
        candidates.append(next((token for token in customary if token in special), None))
        if chosen := next(filter(None, candidates), None):
            roles[role] = chosen
    return Tokenizer(backend, roles)


def _named_token(value: Any) -> str | AddedToken | None:
    """A token as Hugging Face's files name it: a string, or an object that also says how it meets its neighbours."""
    if not isinstance(value, dict) or not isinstance(value.get("content"), str):
        return value if isinstance(value, str) else None
    flags = {key: value[key] for key in ("lstrip", "rstrip", "single_word", "normalized") if isinstance(value.get(key), bool)}
    return AddedToken(value["content"], special=True, **flags)


def _byte_letters() -> dict[str, int]:
    """GPT-2's letter for each byte: itself where it is visible in Latin-1, else the next free one from 256 on."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + place): byte for place, byte in enumerate(hidden)}


_BYTES = _byte_letters()


def _readable(token: str) -> str:
    return bytes(_BYTES[letter] for letter in token).decode("utf-8", errors="backslashreplace")


def check_unicode(text: str) -> None:
    """Refuse what Python allows in a string and no text has: half a surrogate pair, the trace of a wrong decoding."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        where = f"{text[error.start]!r} at position {error.start}"
        raise ClearheadError(f"the text has half a surrogate pair in it ({where}), which is no character") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
