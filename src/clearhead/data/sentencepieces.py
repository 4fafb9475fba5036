"""Tokenizers from SentencePiece's files: T5's `spiece.model`, and Marian's `source.spm`, `target.spm`, `vocab.json`.

T5's becomes a tokenizer of the `tokenizers` library, part for part the one that transformers makes of it. Marian's
pieces are cut by the sentencepiece package itself, an optional extra, as transformers has it: the other library joins
some letters with their marks otherwise (Devanagari's र and a dot below stay two), and so cuts their words otherwise.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Encoding, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from ..errors import ClearheadError
from ..files import naming, read_json, read_optional_json, write_json
from .piece_model import CONTROL, UNIGRAM, USER_DEFINED, PieceModel, read_piece_model
from .tokenizers import Tokenizer, check_unicode, first_line

MARIAN_FILES = ("source.spm", "target.spm", "vocab.json")
SIDES = ("source", "target")
SPECIAL = {"pad": "<pad>", "eos": "</s>", "unk": "<unk>"}
MOST_EXTRA_IDS = 10_000


def read_t5(model_file: Path) -> Backend:
    """A unigram model with T5's <extra_id_99> ... <extra_id_0> at its end; </s> closes a text."""
    model, _ = read_piece_model(model_file)
    config = read_optional_json(model_file.parent / "tokenizer_config.json")
    if model.model_type != UNIGRAM:
        raise ClearheadError(
            f"{model_file} is not a unigram model: of SentencePiece's kinds only this one is read here"
        )
    extra = [f"<extra_id_{number}>" for number in reversed(range(_extra_ids(config)))]
    with naming(model_file):
        special = _special(config)
        if taken := next((token for token in extra if token in {piece.text for piece in model.pieces}), None):
            raise ClearheadError(f"it has {taken} already: tokenizer_config.json beside it must say extra_ids 0")
        return _t5_backend(model, special, extra)


def _t5_backend(model: PieceModel, special: dict[str, str], extra: list[str]) -> Backend:
    scores = [(piece.text, piece.score) for piece in model.pieces] + [(token, 0.0) for token in extra]
    backend = Backend(models.Unigram(scores, unk_id=model.unknown, byte_fallback=False))
    if model.charsmap:
        backend.normalizer = normalizers.Precompiled(model.charsmap)  # pyright: ignore[reportAttributeAccessIssue]
    spaces = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    words = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), spaces])
    backend.pre_tokenizer = words  # pyright: ignore[reportAttributeAccessIssue]
    backend.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always", split=True)  # pyright: ignore[reportAttributeAccessIssue]
    control = [piece.text for piece in model.pieces if piece.kind == CONTROL]
    backend.add_special_tokens([*special.values(), *control, *extra])
    own = [piece.text for piece in model.pieces if piece.kind == USER_DEFINED]
    backend.add_tokens([AddedToken(text, normalized=False, special=False) for text in own])
    end = special["eos"]
    backend.post_processor = _closing(end, backend.get_vocab()[end], f"$A {end} $B {end}")  # pyright: ignore[reportAttributeAccessIssue]
    return backend


def read_marian(folder: Path, side: str) -> Tokenizer:
    """One side of a translation model's tokenizer: the source's pieces or the target's, with the numbers of one list.

    Models with `separate_vocabs` have a list for the target of their own, `target_vocab.json`.
    """
    config = read_optional_json(folder / "tokenizer_config.json")
    separate = config.get("separate_vocabs") is True
    lists = {name: read_json(folder / name) for name in ("vocab.json", "target_vocab.json")[: 1 + separate]}
    spm = {f"{name}.spm": read_piece_model(folder / f"{name}.spm")[1] for name in SIDES}
    for name, numbers in lists.items():
        with naming(folder / name):
            _check_numbers(numbers)
    with naming(folder / f"{side}.spm"):
        segmenter = _segmenter(spm[f"{side}.spm"])
    listing = "target_vocab.json" if separate and side == "target" else "vocab.json"
    with naming(folder / listing):
        return MarianTokenizer(lists[listing], _special(config), segmenter, {"config": config, **lists, **spm})


class MarianTokenizer(Tokenizer):
    """A tokenizer in two steps: sentencepiece cuts the text, a list numbers the pieces."""

    def __init__(self, numbers: dict[str, int], special: dict[str, str], segmenter: Any, files: Mapping[str, Any]):
        """`files` are those of both sides, which `save` writes again."""
        if missing := [token for token in special.values() if token not in numbers]:
            raise ClearheadError(f"not a Marian vocabulary: it has no {', '.join(missing)}")
        self._segmenter, self._files = segmenter, files
        self._between_special = re.compile("(" + "|".join(map(re.escape, special.values())) + ")")
        backend = Backend(models.WordLevel(numbers, unk_token=special["unk"]))
        end = special["eos"]
        backend.post_processor = _closing(end, numbers[end], f"$A $B {end}")  # pyright: ignore[reportAttributeAccessIssue]
        backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse()])  # pyright: ignore[reportAttributeAccessIssue]
        super().__init__(backend, special)
        backend.encode_special_tokens = True  # what looks like one inside a piece is none

    def text(self, ids: Iterable[int], skip_special: bool = True) -> str:
        return super().text(ids, skip_special).strip()

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the files as they came, of both sides; transformers' MarianTokenizer reads them."""
        folder = Path(folder)
        for name, content in self._files.items():
            if isinstance(content, bytes):
                _write_bytes(folder / name, content)
            elif name != "config":
                write_json(folder / name, content)
        write_json(folder / "tokenizer_config.json", {"tokenizer_class": "MarianTokenizer"} | self._files["config"])

    def _encode(self, inputs: Sequence[str | tuple[str, str]], special: bool) -> list[Encoding]:
        pieces = [list(self._pieces(given)) if isinstance(given, str) else self._both(*given) for given in inputs]
        return self._backend.encode_batch(pieces, is_pretokenized=True, add_special_tokens=special)

    def _both(self, first: str, second: str) -> tuple[list[str], list[str]]:
        return list(self._pieces(first)), list(self._pieces(second))

    def _pieces(self, text: str) -> Iterator[str]:
        """Special tokens stand for themselves, and so does what names the language: `>>fra<<` before a text."""
        check_unicode(text)
        for number, stretch in enumerate(self._between_special.split(text)):
            if number % 2:
                yield stretch
                continue
            if stretch.startswith(">>") and "<<" in stretch:
                code, sign, stretch = stretch.partition("<<")
                yield code + sign
            yield from self._segmenter.encode(stretch, out_type=str)


def _segmenter(model: bytes) -> Any:
    try:
        import sentencepiece
    except ImportError:
        raise ClearheadError(
            "it is read by the package sentencepiece: pip install 'clearhead[sentencepiece]'"
        ) from None
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise ClearheadError(f"sentencepiece can't read it: {first_line(error)}") from None
    return processor


def _closing(end: str, number: int, pair: str) -> processors.TemplateProcessing:
    try:
        return processors.TemplateProcessing(single=f"$A {end}", pair=pair, special_tokens=[(end, number)])
    except ValueError:
        raise ClearheadError(
            f"{end!r} can't be the token that closes a text: give it without spaces and colons"
        ) from None


def _check_numbers(vocabulary: dict[str, Any]) -> None:
    numbers = list(vocabulary.values())
    whole = all(type(number) is int and 0 <= number < 2**31 for number in numbers)
    if not numbers or not whole or len(set(numbers)) < len(numbers):
        raise ClearheadError("not a vocabulary: its values must be whole numbers from 0, each once")
    for token in vocabulary:
        check_unicode(token)


def _special(config: dict[str, Any]) -> dict[str, str]:
    """Tokens by role as tokenizer_config.json names them, a text or an object with its `content`."""
    named = {role: config.get(f"{role}_token") for role in SPECIAL}
    said = {role: token.get("content") if isinstance(token, dict) else token for role, token in named.items()}
    tokens = {role: token for role, token in said.items() if isinstance(token, str) and token}
    for token in tokens.values():
        check_unicode(token)
    return SPECIAL | tokens


def _extra_ids(config: dict[str, Any]) -> int:
    count = config.get("extra_ids", 100)
    if type(count) is not int or not 0 <= count <= MOST_EXTRA_IDS:
        raise ClearheadError(f"tokenizer_config.json: extra_ids must be 0 to {MOST_EXTRA_IDS}, not {count!r}")
    return count


def _write_bytes(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise ClearheadError(f"{path} can't be written: {error.strerror or error}") from None
