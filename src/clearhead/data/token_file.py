"""Running text as a file of token numbers, mapped into memory, and the windows that a language model reads of it.

The file: 8 bytes of magic, a header of JSON filled up to 1,024 bytes in all, then the numbers, two or four bytes
each. The header says how many there are, the size of the vocabulary, and the checksum of the tokenizer: numbers
that another tokenizer made are refused. It is written aside and renamed, so there is a whole file or none.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ClearheadError, shown
from ..files import parse_object
from .text_files import require
from .tokenizers import Tokenizer

MAGIC = b"CLRHTOK1"
HEADER_BYTES = 1024
TEXTS_AT_ONCE = 256
LITTLE = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}

Windows = tuple[Tensor, Tensor]
"""What the model reads and what comes next, both (B, L) of int64."""


@dataclass(frozen=True)
class Tokens:
    """A text as numbers. They stay in the file until they are asked for."""

    numbers: np.ndarray
    vocabulary: int
    tokenizer: str
    """The checksum of the tokenizer that made them."""

    def __len__(self) -> int:
        return len(self.numbers)


def tokenizer_checksum(tokenizer: Tokenizer) -> str:
    """The SHA-256 of all that decides which numbers a text gets."""
    return hashlib.sha256(tokenizer.definition.encode()).hexdigest()


def write_tokens(
    path: str | os.PathLike[str],
    documents: Iterable[str],
    tokenizer: Tokenizer,
    *,
    end: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Tokens:
    """Write the numbers of documents one after another, `end` behind each, and open the file.

    `progress` is told how many documents are done. No special tokens are added but `end`.
    """
    path = Path(path)
    kind = "uint16" if tokenizer.size <= 2**16 else "uint32"
    require(end is None or 0 <= end < tokenizer.size, f"{end} is no number of a vocabulary of {tokenizer.size}")
    aside = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside.open("wb") as file:
            file.write(bytes(HEADER_BYTES))
            count = 0
            for done, numbers in _encoded(documents, tokenizer, end):
                file.write(np.array(numbers, LITTLE[kind]).tobytes())
                count += len(numbers)
                if progress:
                    progress(done)
            require(count, f"{path} would hold no token: the text is empty")
            file.seek(0)
            file.write(_header(kind, count, tokenizer))
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        raise ClearheadError(f"{path} can't be written: {error.strerror or error}") from None
    finally:
        aside.unlink(missing_ok=True)
    return open_tokens(path, tokenizer)


def _encoded(documents: Iterable[str], tokenizer: Tokenizer, end: int | None) -> Iterator[tuple[int, list[int]]]:
    """How many documents are done, and the numbers of some more."""
    remaining, done = iter(documents), 0
    while texts := list(islice(remaining, TEXTS_AT_ONCE)):
        done += len(texts)
        rows = (tokenizer.ids(text, special=False) for text in texts)
        yield done, [number for row in rows for number in (row if end is None else [*row, end])]


def _header(kind: str, count: int, tokenizer: Tokenizer) -> bytes:
    content = {"count": count, "dtype": kind, "vocabulary": tokenizer.size, "tokenizer": tokenizer_checksum(tokenizer)}
    return (MAGIC + json.dumps(content).encode()).ljust(HEADER_BYTES)


def open_tokens(path: str | os.PathLike[str], tokenizer: Tokenizer | None = None) -> Tokens:
    """Open a file of tokens; a truncated or foreign one, or one of another tokenizer than this, is refused."""
    path = Path(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(HEADER_BYTES)
    except OSError as error:
        raise ClearheadError(f"{shown(path)} can't be read: {error.strerror or error}") from None
    require(start.startswith(MAGIC), f"{shown(path)} is no file of tokens: it doesn't begin as one")
    require(len(start) == HEADER_BYTES, f"{shown(path)} is truncated: its header is not whole")
    header = _checked_header(parse_object(start[len(MAGIC) :].rstrip(b" \0"), shown(path)), path)
    dtype = LITTLE[header["dtype"]]
    whole = HEADER_BYTES + header["count"] * dtype.itemsize
    require(size >= whole, f"{shown(path)} is truncated: {size:,} of {whole:,} bytes are there")
    require(size == whole, f"{shown(path)} has {size - whole:,} bytes behind its end: it is broken")
    if tokenizer is not None and header["tokenizer"] != tokenizer_checksum(tokenizer):
        raise ClearheadError(f"{shown(path)} was made by another tokenizer: make it again with this one")
    numbers = np.memmap(path, dtype, "r", offset=HEADER_BYTES, shape=(header["count"],))
    return Tokens(numbers, header["vocabulary"], header["tokenizer"])


def _checked_header(header: dict[str, Any], path: Path) -> dict[str, Any]:
    whole = {key: header.get(key) for key in ("count", "vocabulary")}
    fine = all(type(value) is int and value > 0 for value in whole.values())
    fine = fine and header.get("dtype") in LITTLE and isinstance(header.get("tokenizer"), str)
    require(fine, f"{shown(path)} has a header that is not understood: a newer version may have written it")
    return header


def windows(tokens: Tokens | np.ndarray, length: int, seed: int, step: int, batch: int) -> Windows:
    """`batch` stretches of `length` tokens from anywhere, and each one's next tokens: a pure function of seed and step.

    The places come straight from the Philox generator, whose stream NumPy promises to keep: a resumed run reads
    exactly what an uninterrupted one reads, and process r of n takes rows r, r + n, ... of the global batch.
    """
    numbers = _numbers(tokens)
    _check_windows(numbers, length, batch)
    key = np.array([seed % 2**64, step % 2**64], np.uint64)
    starts = np.random.Philox(key=key).random_raw(batch) % np.uint64(len(numbers) - length)
    rows = np.stack([numbers[start : start + length + 1] for start in starts.tolist()]).astype(np.int64)
    both = torch.from_numpy(rows)
    return both[:, :-1], both[:, 1:]


def sequential(tokens: Tokens | np.ndarray, length: int, batch: int) -> Iterator[Windows]:
    """The whole text in order, for evaluation: every token but the first is the next one exactly once.

    What is left at the end comes as a last, shorter window of its own.
    """
    numbers = _numbers(tokens)
    _check_windows(numbers, min(length, len(numbers) - 1), batch)
    full = (len(numbers) - 1) // length
    for first in range(0, full, batch):
        count = min(batch, full - first)
        at = first * length
        stretch = torch.from_numpy(numbers[at : at + count * length + 1].astype(np.int64))
        yield stretch[:-1].view(count, length), stretch[1:].view(count, length)
    if (len(numbers) - 1) % length:
        rest = torch.from_numpy(numbers[full * length :].astype(np.int64))
        yield rest[None, :-1], rest[None, 1:]


def _numbers(tokens: Tokens | np.ndarray) -> np.ndarray:
    return tokens.numbers if isinstance(tokens, Tokens) else tokens


def _check_windows(numbers: np.ndarray, length: int, batch: int) -> None:
    require(
        length >= 1 and batch >= 1, f"a window needs at least a token and a batch a window, not {length} and {batch}"
    )
    require(
        len(numbers) > length,
        f"the text has {len(numbers):,} tokens: too few for a window of {length:,} and the token after it",
    )
