"""Named sets of sentences in two languages: Multi30k, Tatoeba, FLORES, NTREX, TICO-19.

Line i of one file says what line i of the other says; files of different lengths are refused. A pair with an empty
side is left out, counted and named in the notes. Languages go by their two-letter codes, in either direction.
"""

import re
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import ClearheadError, near
from .kinds import Dataset, Parallel
from .text_files import Folder, find, left_out, locate, lot, parse_rows, read_bytes, read_lines, require

MULTI30K_PARTS = {
    "train": ("train",),
    "valid": ("val",),
    "test": ("test_2016_flickr", "test2016"),
    "test_2017_flickr": ("test_2017_flickr",),
    "test_2017_mscoco": ("test_2017_mscoco",),
    "test_2018_flickr": ("test_2018_flickr",),
}
NTREX_CODES = {"en": "eng", "ne": "nep", "de": "deu", "fr": "fra", "hi": "hin", "cs": "ces"}
XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def aligned(first: Path, second: Path) -> tuple[Parallel, tuple[str, ...]]:
    """Two files line by line. Pairs with an empty side are left out; different numbers of lines are an error."""
    sources, targets = read_lines(first), read_lines(second)
    require(
        len(sources) == len(targets),
        f"{first} has {len(sources):,} lines and {second} has {len(targets):,}: they must match line by line",
    )
    return _pairs(first, [*zip(sources, targets, strict=True)], [f"line {i}" for i in range(1, len(sources) + 1)])


def _pairs(file: Path, rows: Sequence[tuple[str, str]], names: Sequence[str]) -> tuple[Parallel, tuple[str, ...]]:
    stripped = [(source.strip(), target.strip()) for source, target in rows]
    bad = [f"{name}: a side is empty" for name, row in zip(names, stripped, strict=True) if not all(row)]
    kept = [row for row in stripped if all(row)]
    require(kept, f"{file} holds no pair that can be read")
    part = Parallel([source for source, _ in kept], [target for _, target in kept])
    return part, left_out(file, bad, len(kept), "pairs")


def _languages(name: str, source: str, target: str, known: Sequence[str]) -> tuple[str, str]:
    for language in (source, target):
        require(
            language in known,
            f"{name} has no language {language!r}: it has {', '.join(known)}{near(language, known)}",
        )
    require(source != target, f"{name}: source and target are both {source!r}")
    return source, target


def _dataset(
    name: str, read: Mapping[str, tuple[Parallel, tuple[str, ...]]], languages: tuple[str, str], notes: tuple[str, ...]
) -> Dataset[Parallel]:
    parts = {part: rows for part, (rows, _) in read.items()}
    return Dataset(name, "parallel", parts, languages=languages, notes=sum((said for _, said in read.values()), notes))


def multi30k(folder: Folder = None, source: str = "en", target: str = "de") -> Dataset[Parallel]:
    """29,000 captions to train on, 1,014 to choose by, 1,000 to test (2016's); 2017's and 2018's tests beside it."""
    languages = _languages("multi30k", source, target, ("en", "de", "fr", "cs"))
    read: dict[str, tuple[Parallel, tuple[str, ...]]] = {}
    notes: tuple[str, ...] = ()
    for part, stems in MULTI30K_PARTS.items():
        names = [_multi30k_names(stems, language) for language in languages]
        if part not in ("train", "valid", "test") and None in (locate("multi30k", each, folder) for each in names):
            notes += (f"no part {part} in {source} and {target}",)
            continue
        read[part] = aligned(*(find("multi30k", each, folder) for each in names))
    return _dataset("multi30k", read, languages, notes)


def _multi30k_names(stems: Sequence[str], language: str) -> list[str]:
    """As the repository has them, and as copies of it do."""
    return [
        f"{place}{stem}.{language}{packed}"
        for place in ("raw/", "data/task1/raw/", "")
        for stem in stems
        for packed in (".gz", "")
    ]


def tatoeba(folder: Folder = None, source: str = "en", target: str = "de") -> Dataset[Parallel]:
    """169,813 pairs of short sentences; many share a side. There is no official split.

    Pairs that share a sentence in either language (letters alone count, not case or punctuation) stay together; of
    these groups 2% go to valid and 2% to test, drawn by their letters: so no test sentence was seen in any language.
    """
    languages = _languages("tatoeba", source, target, ("en", "de"))
    file = find("tatoeba", ["deu.txt.gz", "deu.txt"], folder)
    rows, bad = parse_rows(file, read_lines(file), _tatoeba_pair, what="pair")
    lots = [lot(group) for group in _groups(rows)]
    directed = rows if source == "en" else [(german, english) for english, german in rows]
    bounds = {"train": (0.04, 1.0), "valid": (0.0, 0.02), "test": (0.02, 0.04)}
    parts = {}
    for part, (low, high) in bounds.items():
        chosen = [row for row, drawn in zip(directed, lots, strict=True) if low <= drawn < high]
        parts[part] = Parallel([first for first, _ in chosen], [second for _, second in chosen])
    told = "no official split: 2% of the groups of pairs that share a sentence are valid, 2% test"
    notes = (told, *left_out(file, bad, len(rows), "pairs"))
    return Dataset("tatoeba", "parallel", parts, languages=languages, notes=notes)


def _tatoeba_pair(line: str) -> tuple[str, str]:
    """English and German; newer files name the authors in a third field."""
    fields = [field.strip() for field in line.split("\t")]
    require(len(fields) in (2, 3), f"{len(fields)} fields, not 2 or 3")
    require(fields[0] and fields[1], "a side is empty")
    return fields[0], fields[1]


def _groups(rows: Sequence[tuple[str, str]]) -> list[str]:
    """For each pair a name of its group, the first key in order of all that are joined by pairs (union and find)."""
    leader: dict[str, str] = {}

    def lead(key: str) -> str:
        while leader.setdefault(key, key) != key:
            leader[key] = leader[leader[key]]
            key = leader[key]
        return key

    keys = [(f"en {_letters(english)}", f"de {_letters(german)}") for english, german in rows]
    for one, other in keys:
        first, last = sorted((lead(one), lead(other)))
        leader[last] = first
    return [lead(english) for english, _ in keys]


def _letters(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold())) or text


def flores(folder: Folder = None, source: str = "ne", target: str = "en") -> Dataset[Parallel]:
    """FLORES v1: 2,559 sentences of Wikipedia to choose by (its dev), 2,835 as devtest, 2,924 to test."""
    languages = _languages("flores", source, target, ("ne", "en"))
    names = {"valid": "dev", "devtest": "devtest", "test": "test"}
    read = {
        part: aligned(*(find("flores", [f"wikipedia.{name}.ne-en.{language}"], folder) for language in languages))
        for part, name in names.items()
    }
    return _dataset("flores", read, languages, ("no train part: FLORES is for testing",))


def ntrex(folder: Folder = None, source: str = "ne", target: str = "en") -> Dataset[Parallel]:
    """NTREX-128: the English news of 2019's WMT test, 1,997 sentences, translated by people; for testing alone."""
    languages = _languages("ntrex", source, target, tuple(NTREX_CODES))
    codes = [NTREX_CODES[language] for language in languages]
    files = [find("ntrex", [f"newstest2019-{'src' if code == 'eng' else 'ref'}.{code}.txt"], folder) for code in codes]
    return _dataset("ntrex", {"test": aligned(*files)}, languages, ("no train or valid part: NTREX is for testing",))


def tico19(folder: Folder = None, source: str = "ne", target: str = "en") -> Dataset[Parallel]:
    """TICO-19: 3,071 sentences, from `tico19.en-ne.tsv` (id, English, Nepali) or the authors' translation memory."""
    languages = _languages("tico19", source, target, ("ne", "en"))
    file = find("tico19", ["tico19.en-ne.tsv", "all.en-ne.tmx.zip", "all.en-ne.tmx"], folder)
    if file.suffix == ".tsv":
        rows, bad = parse_rows(file, read_lines(file), _tico_row, what="pair")
        notes = left_out(file, bad, len(rows), "pairs")
    else:
        rows, notes = _translation_memory(file), ()
    ids = [name for name, _, _ in rows]
    directed = [(ne, en) if source == "ne" else (en, ne) for _, en, ne in rows]
    told = "all of it is the test part: which sentences are its official dev (971) and test (2,100) is not in this file"
    return _dataset("tico19", {"test": _pairs(file, directed, ids)}, languages, (told, *notes))


def _tico_row(line: str) -> tuple[str, str, str]:
    fields = line.split("\t")
    require(len(fields) == 3, f"{len(fields)} fields, not 3")
    return fields[0], fields[1], fields[2]


def _translation_memory(file: Path) -> list[tuple[str, str, str]]:
    """Number, English and Nepali of each unit of a TMX file; white space is squeezed to single spaces."""
    member = "all.en-ne.tmx" if zipfile.is_zipfile(file) else None
    raw = read_bytes(file, member)
    require(b"<!" not in raw.replace(b"<!--", b""), f"{file} declares entities or a document type, which is refused")
    try:
        units = [*ElementTree.fromstring(raw).iter("tu")]
    except ElementTree.ParseError as error:
        raise ClearheadError(f"{file} is not valid XML: {error}") from None
    return [(unit.get("tuid", "?"), _segment(unit, "en"), _segment(unit, "ne")) for unit in units]


def _segment(unit: ElementTree.Element, language: str) -> str:
    found = next((side.find("seg") for side in unit.iter("tuv") if side.get(XML_LANGUAGE) == language), None)
    return "" if found is None else " ".join("".join(found.itertext()).split())
