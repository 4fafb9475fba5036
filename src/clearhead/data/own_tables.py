"""The user's own table of texts and labels: CSV, TSV or JSONL, UTF-8, its columns recognised by their names.

CSV is read with quotes, and parted by whichever of comma and semicolon its first line has more of; TSV is read
without quotes. Bad rows (wrong number of fields, no JSON object, no text, no label, a label that train doesn't know)
are left out, counted and named in the notes; a table with more bad rows than good ones is refused. Where no
validation file is given, `text_splits` holds a share out. The notes say what was recognised.
"""

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..errors import ClearheadError, near, some
from ..files import parse_object
from .kinds import Dataset, Labelled
from .text_files import left_out, read_document, read_lines, require
from .text_splits import SHARE, with_validation

File = str | os.PathLike[str]

TEXT_NAMES = ("text", "sentence", "review", "comment", "content", "message", "body", "tweet", "document", "title")
PAIR_NAMES = (("sentence1", "sentence2"), ("text1", "text2"), ("question1", "question2"), ("premise", "hypothesis"))
LABEL_NAMES = ("label", "class", "category", "target", "sentiment", "score", "similarity", "rating", "stars", "y")
FEW = 20  # so many different whole numbers are classes, more are scores


@dataclass(frozen=True)
class Table:
    """What a file holds, before anything is understood: its columns, its rows by line, and its bad rows."""

    file: Path
    headings: list[str]
    rows: list[tuple[int, dict[str, str]]]
    bad: list[tuple[int, str]]

    def need(self, column: str) -> str:
        has = f"it has {some(self.headings)}{near(column, self.headings)}"
        require(column in self.headings, f"{self.file} has no column {column!r}: {has}")
        return column


@dataclass(frozen=True)
class Columns:
    text: str
    second: str | None
    label: str

    def __str__(self) -> str:
        return f"text {self.text!r}, {f'second text {self.second!r}, ' if self.second else ''}label {self.label!r}"


@dataclass(frozen=True)
class Labels:
    """What the labels of train mean: numbers of classes, or scores where there are no classes."""

    classes: tuple[str, ...]
    numeric: bool
    """Classes are told apart as numbers: 1 and 1.0 are the same."""

    def __str__(self) -> str:
        return f"{len(self.classes)} classes ({some(self.classes)})" if self.classes else "scores"

    def value(self, written: str) -> float:
        number = _number(written)
        if not self.classes:
            require(number is not None, f"the label {written[:20]!r} is no number")
            return number or 0.0
        name = _class_name(number) if self.numeric and number is not None else written
        require(name in self.classes, f"the label {written[:20]!r} is no class of train")
        return self.classes.index(name)


def own_table(
    train: File,
    valid: File | None = None,
    test: File | None = None,
    *,
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    scores: bool | None = None,
    share: float = SHARE,
    seed: int = 0,
) -> Dataset[Labelled]:
    """Texts, or pairs of texts, with labels.

    Columns are recognised ("text", "review", "label", "sentiment" ...) or given by name; given by number, from 1, they
    are those of a file without a heading. Labels that are all numbers are scores, unless they are whole and at most 20
    different ones: then, as words do, they name classes. `scores` decides it instead.
    """
    given = {"text": text, "second": second, "label": label}
    headless = any(name is not None and name.isdecimal() for name in given.values())
    files = {part: file for part, file in (("train", train), ("valid", valid), ("test", test)) if file is not None}
    tables = {part: read_table(Path(file), headless) for part, file in files.items()}
    columns = _columns(tables["train"], given)
    labels = _labels(tables["train"], columns.label, scores)
    read = {part: _part(table, columns, labels) for part, table in tables.items()}
    parts = {part: rows for part, (rows, _) in read.items()}
    notes = (f"recognised: {columns} ({labels})", *_lone(parts["train"], labels.classes))
    notes = sum((said for _, said in read.values()), notes)
    kind = "labelled" if labels.classes else "scored"
    return with_validation(Dataset(Path(train).stem, kind, parts, labels.classes, notes=notes), share, seed)


def read_table(file: Path, headless: bool = False) -> Table:
    """The rows of a table by line; without a heading its columns are called "1", "2" ..."""
    kinds = (".csv", ".tsv", ".jsonl", ".ndjson")
    require(file.suffix.lower() in kinds, f"{file} is no table by its name: it should end in {', '.join(kinds)}")
    if file.suffix.lower() in (".jsonl", ".ndjson"):
        return _json_table(file)
    text = read_document(file)
    first, lines = text.partition("\n")[0], io.StringIO(text, newline="\n")
    if file.suffix.lower() == ".tsv":
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(lines, delimiter=";" if first.count(";") > first.count(",") else ",", strict=True)
    try:
        found = [(reader.line_num, fields) for fields in reader]
    except csv.Error as error:
        raise ClearheadError(f"{file} line {reader.line_num} is no row of a table: {error}") from None
    require(found, f"{file} is empty")
    headings = [str(i + 1) for i in range(len(found[0][1]))] if headless else [name.strip() for name in found[0][1]]
    require(len(set(headings)) == len(headings), f"{file} names a column twice: {some(headings)}")
    body = found if headless else found[1:]
    bad = [(n, f"{len(fields)} fields, not {len(headings)}") for n, fields in body if len(fields) != len(headings)]
    rows = [(n, dict(zip(headings, fields, strict=True))) for n, fields in body if len(fields) == len(headings)]
    return Table(file, headings, rows, bad)


def _json_table(file: Path) -> Table:
    """A JSON object a line; its columns are the keys of the first."""
    rows: list[tuple[int, dict[str, str]]] = []
    bad: list[tuple[int, str]] = []
    for number, line in enumerate(read_lines(file), start=1):
        try:
            content = parse_object(line.encode(), "it")
        except ClearheadError as problem:
            bad.append((number, str(problem)))
        else:
            rows.append((number, {key: _written(value) for key, value in content.items()}))
    require(rows, f"{file} holds no JSON object{f' (line {bad[0][0]}: {bad[0][1]})' if bad else ''}")
    return Table(file, list(rows[0][1]), rows, bad)


def _written(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _columns(table: Table, given: Mapping[str, str | None]) -> Columns:
    """Which column is what: as given, else by its name, else the one that is left of two."""
    text, second, label = (name and table.need(name) for name in (given["text"], given["second"], given["label"]))
    spelt = {heading.lower(): heading for heading in reversed(table.headings)}
    pair = next((pair for pair in PAIR_NAMES if spelt.keys() >= set(pair)), None)
    if pair and text is None and second is None:
        text, second = spelt[pair[0]], spelt[pair[1]]
    text = text or _known(spelt, TEXT_NAMES)
    label = label or _known(spelt, LABEL_NAMES)
    if len(table.headings) == 2 and (text is None) != (label is None):
        other = next(heading for heading in table.headings if heading not in (text, label))
        text, label = text or other, label or other
    if text is None or label is None:
        role = "text" if text is None else "label"
        has = f"it has {some(table.headings)}"
        raise ClearheadError(f"which column of {table.file} is the {role}? Say {role}=NAME: {has}")
    used = [name for name in (text, second, label) if name is not None]
    require(len(set(used)) == len(used), f"{table.file}: one column can't be two of {', '.join(map(repr, used))}")
    return Columns(text, second, label)


def _known(spelt: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((spelt[name] for name in names if name in spelt), None)


def _labels(table: Table, column: str, scores: bool | None) -> Labels:
    written = [label for _, row in table.rows if (label := row.get(column, "").strip())]
    numbers = [number for label in written if (number := _number(label)) is not None]
    numeric = len(numbers) == len(written)
    few = all(number.is_integer() for number in numbers) and len(set(numbers)) <= FEW
    if scores or (scores is None and written and numeric and not few):
        return Labels((), True)
    names = map(_class_name, sorted(set(numbers))) if numeric else sorted(set(written))
    classes = tuple(names)
    where = f"{table.file}: column {column!r}"
    require(
        len(classes) > 1, f"{where} holds {'one class alone' if classes else 'no label'}: there is nothing to learn"
    )
    many = f"{where} has {len(classes)} different labels in {len(written)} rows: these are no classes"
    require(len(classes) <= max(FEW, len(written) // 2), many)
    return Labels(classes, numeric)


def _part(table: Table, columns: Columns, labels: Labels) -> tuple[Labelled, tuple[str, ...]]:
    """One part with its labels as numbers, and notes on what was left out of it."""
    for name in filter(None, (columns.text, columns.second, columns.label)):
        table.need(name)
    good: list[tuple[str, str, float]] = []
    problems = list(table.bad)
    for line, row in table.rows:
        try:
            good.append(_row(row, columns, labels))
        except ClearheadError as problem:
            problems.append((line, str(problem)))
    bad = [f"line {line}: {problem}" for line, problem in sorted(problems)]
    counts = f"{len(bad)} bad rows and {len(good)} good ones"
    require(len(good) >= max(len(bad), 1), f"{table.file} has {counts} ({'; '.join(bad[:1]) or 'it is empty'})")
    texts, seconds, values = zip(*good, strict=True)
    numbers = torch.tensor(values, dtype=torch.int64 if labels.classes else torch.float32)
    return Labelled(texts, numbers, seconds if columns.second else None), left_out(table.file, bad, len(good))


def _lone(train: Labelled, classes: Sequence[str]) -> tuple[str, ...]:
    """A note on classes with one text, of which none can be held out."""
    counts = torch.bincount(train.labels, minlength=len(classes)) if classes else ()
    lone = [name for name, count in zip(classes, counts, strict=True) if count == 1]
    return (f"{len(lone)} classes with one text alone, which stays in train: {some(lone)}",) if lone else ()


def _row(row: Mapping[str, str], columns: Columns, labels: Labels) -> tuple[str, str, float]:
    text, label = row.get(columns.text, "").strip(), row.get(columns.label, "").strip()
    second = row.get(columns.second, "").strip() if columns.second else ""
    require(text and (second or columns.second is None), "no text")
    require(label, "no label")
    return text, second, labels.value(label)


def _number(label: str) -> float | None:
    try:
        number = float(label)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _class_name(number: float) -> str:
    return str(int(number)) if number.is_integer() else str(number)
