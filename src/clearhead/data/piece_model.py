"""SentencePiece's model file, read by ourselves: a protobuf message of which three fields matter.

The message holds the pieces with their scores, how they were trained, and a table that evens out the text beforehand
(`charsmap`). The libraries that work with such a model trust it and fall over where it is broken, so it is checked here
to the last index before one of them sees it.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import ClearheadError
from ..files import naming

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM = 1
# Numbers of the fields in the messages ModelProto, SentencePiece, TrainerSpec and NormalizerSpec.
PIECE, TRAINER, NORMALIZER, DENORMALIZER = 1, 2, 3, 5
TEXT, SCORE, KIND = 1, 2, 3
MODEL_TYPE, CHARSMAP = 3, 2

VARINT, EIGHT_BYTES, LENGTH_FIRST, FOUR_BYTES = 0, 1, 2, 5
LONGEST_VARINT = 10


@dataclass(frozen=True)
class Piece:
    text: str
    score: float
    kind: int


@dataclass(frozen=True)
class PieceModel:
    """What a SentencePiece file says. A piece's number is its place; exactly one stands for the unknown."""

    pieces: list[Piece]
    model_type: int
    charsmap: bytes

    @property
    def unknown(self) -> int:
        return next(number for number, piece in enumerate(self.pieces) if piece.kind == UNKNOWN)


def read_piece_model(path: Path) -> tuple[PieceModel, bytes]:
    """A SentencePiece file, checked, and its bytes as they are."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ClearheadError(f"{path} can't be read: {error.strerror or error}") from None
    with naming(path):
        return parse_piece_model(content), content


def parse_piece_model(content: bytes) -> PieceModel:
    pieces: list[Piece] = []
    model_type: int | bytes = UNIGRAM
    charsmap = b""
    for field, value in _fields(content):
        if field == PIECE:
            pieces.append(_piece(_message(value)))
        elif field == TRAINER:
            model_type = _last(value, MODEL_TYPE, model_type)
        elif field in (NORMALIZER, DENORMALIZER):
            table = _message(_last(value, CHARSMAP, b""))
            _check_charsmap(table)
            charsmap = table if field == NORMALIZER else charsmap
    _check_pieces(pieces)
    return PieceModel(pieces, model_type if isinstance(model_type, int) else 0, charsmap)


def _piece(message: bytes) -> Piece:
    text, score, kind = b"", 0.0, NORMAL
    for field, value in _fields(message):
        if field == TEXT:
            text = _message(value)
        elif field == SCORE and isinstance(value, bytes) and len(value) == 4:
            (score,) = struct.unpack("<f", value)
        elif field == KIND and isinstance(value, int):
            kind = value
    try:
        return Piece(text.decode(), score, kind)
    except UnicodeDecodeError:
        raise ClearheadError(f"broken SentencePiece model: the piece {text[:40]!r} is not UTF-8") from None


def _check_pieces(pieces: list[Piece]) -> None:
    seen: set[str] = set()
    for number, piece in enumerate(pieces):
        if not piece.text or "\0" in piece.text or piece.text in seen:
            raise ClearheadError(
                f"broken SentencePiece model: piece {number} is {piece.text[:40]!r}, empty or a repeat"
            )
        if not math.isfinite(piece.score) or not NORMAL <= piece.kind <= BYTE:
            raise ClearheadError(
                f"broken SentencePiece model: piece {number} has score {piece.score}, kind {piece.kind}"
            )
        seen.add(piece.text)
    if sum(piece.kind == UNKNOWN for piece in pieces) != 1:
        raise ClearheadError("not a SentencePiece model: it needs exactly one piece for the unknown")


def _check_charsmap(table: bytes) -> None:
    """A size, a double-array trie of 32-bit units, and texts that end in a zero byte: no walk may leave them.

    A unit holds a byte, where its children are (a byte's child lies at `base ^ byte`), and whether a key ends in it;
    then its child 0 holds the place of the replacement text.
    """
    if not table:
        return
    size = int.from_bytes(table[:4], "little")
    texts = table[4 + size :]
    if size == 0 or size % 4 or 4 + size > len(table) or not texts.endswith(b"\0"):
        raise ClearheadError("broken SentencePiece model: its table of characters is cut off")
    try:
        texts.decode()
    except UnicodeDecodeError:
        raise ClearheadError("broken SentencePiece model: its table of characters is not UTF-8") from None
    units = np.frombuffer(table, dtype="<u4", count=size // 4, offset=4).astype(np.int64)
    inner = units >> 31 == 0
    base = np.arange(len(units)) ^ ((units >> 10) << ((units & (1 << 9)) >> 6))
    if (base[inner] | 255).max(initial=0) >= len(units) or not inner[0]:
        raise ClearheadError("broken SentencePiece model: its table of characters points outside itself")
    places = units[base[inner & (units >> 8 & 1 == 1)]] & 0x7FFFFFFF
    letters = np.frombuffer(texts, dtype=np.uint8)
    if places.max(initial=0) >= len(letters) or np.any(letters[places] >> 6 == 0b10):
        raise ClearheadError("broken SentencePiece model: its table of characters points outside itself")


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Every field of a protobuf message as it lies there: its number, and a whole number or bytes."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        wire = key & 7
        if wire == VARINT:
            value, position = _varint(message, position)
        elif wire in (EIGHT_BYTES, FOUR_BYTES, LENGTH_FIRST):
            length = {EIGHT_BYTES: 8, FOUR_BYTES: 4}.get(wire)
            if length is None:
                length, position = _varint(message, position)
            value = message[position : position + length]
            position += length
        else:
            raise ClearheadError(f"not a SentencePiece model: a field of kind {wire} near byte {position}")
        if position > len(message):
            raise ClearheadError("not a SentencePiece model, or cut off: a field runs past the end")
        yield key >> 3, value


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """A number in seven bits a byte, the lowest first, and where it ends."""
    number = 0
    for step, byte in enumerate(message[position : position + LONGEST_VARINT]):
        number |= (byte & 127) << (7 * step)
        if byte < 128:
            return number, position + step + 1
    raise ClearheadError("not a SentencePiece model, or cut off: a number without an end")


def _last(part: int | bytes, wanted: int, otherwise: int | bytes) -> int | bytes:
    """A field of a part; as everywhere in protobuf the last of several counts."""
    found = [value for field, value in _fields(_message(part)) if field == wanted]
    return found[-1] if found else otherwise


def _message(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ClearheadError("not a SentencePiece model: a number where a part was expected")
    return value
