"""Readers for the tokenizer files that models come with.

Read are `tokenizer.json`; BERT's `vocab.txt`; T5's `spiece.model`; Marian's `source.spm` + `target.spm` + `vocab.json`;
and the two files of GPT-2 and GPT under both their names (`vocab.json` + `merges.txt`, and OpenAI's `encoder.json` +
`vocab.bpe`). Which token has which role is taken from the files beside it, in this order:
`tokenizer_config.json`, `special_tokens_map.json`, the ids in `config.json`, and last the customary spellings.
Only files with these fixed names are opened: a path that stands in one of them is never followed.
"""

import json
from os import PathLike
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from ..errors import ClearheadError, near
from ..files import naming, read_json, read_optional_json, read_text
from .sentencepieces import MARIAN_FILES, SIDES, read_marian, read_t5
from .tokenizers import BYTE_LETTERS, ROLES, Tokenizer, check_unicode, first_line
from .wordpiece import read_wordpiece

TWO_FILES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))


def read_tokenizer(path: str | PathLike[str], side: str = "source") -> Tokenizer:
    """The tokenizer of a model's folder, or of a `tokenizer.json` file.

    `side` chooses between the two, "source" and "target", that a translation model may have; most models have one.
    Ours keeps the target's in a folder of that name.
    """
    path = Path(path)
    if side not in SIDES:
        raise ClearheadError(f"no side {side!r} of a tokenizer: there are {' and '.join(SIDES)}{near(side, SIDES)}")
    if path.is_file():
        return _with_roles(_read_backend(path), path.parent)
    if not path.is_dir():
        raise ClearheadError(f"{path} does not exist: give a model's folder or a tokenizer.json")
    if side == "target" and (path / side / "tokenizer.json").exists():
        return read_tokenizer(path / side)
    if all((path / name).exists() for name in MARIAN_FILES):
        return read_marian(path, side)
    one_file = {"tokenizer.json": _read_backend, "vocab.txt": _read_wordpiece, "spiece.model": read_t5}
    for name, read in one_file.items():
        if (path / name).exists():
            return _with_roles(read(path / name), path)
    for vocabulary, merges in TWO_FILES:
        if (path / vocabulary).exists() and (path / merges).exists():
            return _with_roles(_read_merged(path / vocabulary, path / merges), path)
    wanted = [*one_file, *(" + ".join(names) for names in (MARIAN_FILES, *TWO_FILES))]
    raise ClearheadError(f"{path} has no tokenizer: looked for {', '.join(wanted)}")


def _read_backend(path: Path) -> Backend:
    text = read_text(path)
    try:
        backend = Backend.from_str(text)
    except Exception as error:  # the library raises nothing narrower
        why = first_line(error)
        raise ClearheadError(f"{path} is not a tokenizer that the tokenizers library reads: {why}") from None
    if backend.post_processor is not None:
        _check_template(json.loads(backend.post_processor.__getstate__()), backend, path)
    return backend


def _read_wordpiece(path: Path) -> Backend:
    try:
        return read_wordpiece(path)
    except ClearheadError:
        raise
    except ValueError as error:  # from the library: a token that can't stand in the template around a text
        raise ClearheadError(f"{path} and the tokens named beside it don't go together: {first_line(error)}") from None


def _check_template(processor: dict[str, Any], backend: Backend, path: Path) -> None:
    """The library aborts where it should raise if the template around a text names a token that is not defined."""
    for inner in processor.get("processors", []):
        _check_template(inner, backend, path)
    defined = processor.get("special_tokens", {})
    parts = [part for kind in ("single", "pair") for part in processor.get(kind, [])]
    missing = {part["SpecialToken"]["id"] for part in parts if "SpecialToken" in part} - defined.keys()
    missing |= {name for name, token in defined.items() if None in map(backend.id_to_token, token["ids"])}
    if missing:
        raise ClearheadError(f"{path} puts tokens around a text that it does not have: {', '.join(sorted(missing))}")


def _read_merged(vocabulary_file: Path, merges_file: Path) -> Backend:
    """A vocabulary, and the list of merges in their order: GPT-2's form over bytes, or GPT's over letters."""
    vocabulary = read_json(vocabulary_file)
    numbers = list(vocabulary.values())
    if any(type(number) is not int for number in numbers) or sorted(numbers) != list(range(len(numbers))):
        raise ClearheadError(
            f"{vocabulary_file} is not a vocabulary: its values must be 0 to {len(numbers) - 1}, each once"
        )
    over_letters = "<unk>" in vocabulary and any(token.endswith("</w>") for token in vocabulary)
    missing = BYTE_LETTERS.keys() - vocabulary.keys()
    if missing and not over_letters:
        raise ClearheadError(
            f"{vocabulary_file} is not GPT-2's byte-level form: {len(missing)} of its 256 byte letters are missing"
        )
    merges = _read_merges(merges_file)
    try:
        return _over_letters(vocabulary, merges) if missing else _over_bytes(vocabulary, merges)
    except Exception as error:  # the library raises nothing narrower
        raise ClearheadError(f"{merges_file} does not fit {vocabulary_file.name}: {first_line(error)}") from None


def _over_bytes(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> Backend:
    """GPT-2's: 256 letters stand for bytes, and every text can be said."""
    backend = Backend(models.BPE(vocab=vocabulary, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    backend.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    if "<|endoftext|>" in vocabulary:
        backend.add_special_tokens(["<|endoftext|>"])
    return backend


def _over_letters(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> Backend:
    """GPT's: lower case, split as BERT splits, and a word's last piece ends in </w>."""
    backend = Backend(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", end_of_word_suffix="</w>"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)  # pyright: ignore[reportAttributeAccessIssue]
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # pyright: ignore[reportAttributeAccessIssue]
    backend.decoder = decoders.BPEDecoder(suffix="</w>")  # pyright: ignore[reportAttributeAccessIssue]
    backend.add_special_tokens(["<unk>"])
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
        with naming(folder):
            candidates: list[str | AddedToken | None] = [_named_token(source.get(f"{role}_token")) for source in named]
        number = numbered.get(f"{role}_token_id")
        candidates.append(by_id.get(number) if type(number) is int else None)
        candidates.append(next((token for token in customary if token in special), None))
        if chosen := next(filter(None, candidates), None):
            roles[role] = chosen
    return Tokenizer(backend, roles)


def _named_token(value: Any) -> AddedToken | None:
    """A token as Hugging Face's files name it: a string, or an object that also says how it meets its neighbours."""
    fields = value if isinstance(value, dict) else {"content": value}
    content = fields.get("content")
    if not isinstance(content, str) or not content:
        return None
    check_unicode(content)
    flags = {key: fields.get(key, False) is True for key in ("lstrip", "rstrip", "single_word", "normalized")}
    return AddedToken(content, special=True, **flags)
