"""`gettext`: what programs say in English and in another language, from the catalogues they were translated with.

A catalogue (`CODE/LC_MESSAGES/NAME.mo`, the GNU project's binary form) holds English messages and what they are called
in the language CODE. They are taken without marks of keys to press; of several numbers ("one file", "two files") the
first. Messages with places for values or with tags are left out, and what was there before; and where a language has
letters of its own, what is said without them.
"""

import re
import struct
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import ClearheadError, shown
from .kinds import Dataset, Parallel
from .text_files import Folder, data_root, facts, places, read_bytes, require

MAGIC = 0x950412DE
CONTEXT, PLURAL = b"\x04", b"\x00"
LONGEST = 300  # letters of a message: longer ones are licences and lists
KEYS = re.compile(r"\s*\([_&~]\w\)|[_&~](?=\w)")  # "(_F)", "_File", "&File", "~File"
NOT_TEXT = re.compile(r"[%<>{}\[\]\\|=$@#/*^`\n\t]|\w[_&~]\w|\d{2}")


def gettext(folder: Folder = None, source: str = "ne", target: str = "en") -> Dataset[Parallel]:
    """Messages of programs in English and another language, every pair once; all of them are to learn from."""
    require("en" in (source, target) and source != target, "catalogues go from or to English (en) and another language")
    code = source if target == "en" else target
    files = _files(code, data_root("gettext", f"gettext/{code}/LC_MESSAGES", folder))
    read, notes = [], []
    for file in files:
        try:
            read += [*messages(file)]
        except ClearheadError as problem:
            notes.append(f"left out: {problem}")
    pairs = _texts(read)
    require(pairs, f"{len(files)} catalogues of {code!r} hold no text")
    told = f"{len(files)} catalogues hold {len(read):,} messages, of which {len(pairs):,} are text and not there before"
    order = (0, 1) if source == "en" else (1, 0)
    part = Parallel(*([pair[side] for pair in pairs] for side in order))
    return Dataset("gettext", "parallel", {"train": part}, languages=(source, target), notes=(told, *notes))


def _files(code: str, root: Path) -> list[Path]:
    """Every catalogue of a language in the first place that has one."""
    require(re.fullmatch(r"[A-Za-z]{2,3}([_@][\w@]+)?", code), f"{code!r} is no language's code, such as ne or pt_BR")
    own, last = f"**/{code}/LC_MESSAGES/*.mo", f"{code}/LC_MESSAGES/*.mo"
    for place in places("gettext", root):
        found = sorted(place.glob(last if place == root else own))
        if found:
            return found
    raise ClearheadError(
        f"{root / 'gettext' / code / 'LC_MESSAGES'} has no catalogue (.mo): put there {facts('gettext')['fetch']}"
    )


def messages(file: Path) -> Iterator[tuple[str, str]]:
    """The English and the other text of every message of a catalogue; its header, which has no English, is left out."""
    raw = read_bytes(file)
    order = next((sign for sign in "<>" if raw[:4] == struct.pack(f"{sign}I", MAGIC)), None)
    require(order, f"{shown(file)} is no catalogue of messages (.mo)")
    try:
        _, count, english, other = struct.unpack_from(f"{order}4I", raw, 4)
        sides = [struct.unpack_from(f"{order}{2 * count}I", raw, at) for at in (english, other)]
        for place in range(count):
            pieces = [_piece(raw, *side[2 * place : 2 * place + 2]) for side in sides]
            if pieces[0]:
                yield pieces[0], pieces[1]
    except (struct.error, UnicodeDecodeError, ValueError) as problem:
        raise ClearheadError(f"{shown(file)} is broken, or not in UTF-8: {problem}") from None


def _piece(raw: bytes, length: int, at: int) -> str:
    """A text without what tells it from others of the same letters, and of several numbers the first."""
    if at + length > len(raw):
        raise ValueError(f"a text ends behind the file's {len(raw):,} bytes")
    return raw[at : at + length].split(CONTEXT)[-1].split(PLURAL)[0].decode()


def _texts(read: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Every pair of texts once, English first."""
    cleaned = dict.fromkeys((_cleaned(english), _cleaned(other)) for english, other in read)
    pairs = [pair for pair in cleaned if pair[0] != pair[1] and all(map(_is_text, pair))]
    foreign = [pair for pair in pairs if any(map(_beyond_latin, pair[1]))]
    return foreign if 2 * len(foreign) > len(pairs) else pairs


def _cleaned(text: str) -> str:
    return re.sub(" +", " ", KEYS.sub("", text)).strip(" .:…")


def _is_text(text: str) -> bool:
    return len(text) <= LONGEST and any(map(str.isalpha, text)) and not NOT_TEXT.search(text)


def _beyond_latin(letter: str) -> bool:
    return letter.isalpha() and not unicodedata.name(letter, "").startswith("LATIN")
