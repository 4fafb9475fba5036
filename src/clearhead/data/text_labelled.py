"""Named sets of texts that people judged: classes (SST-2, MRPC, RTE, CoLA), scores (STS-B, words), answers (SQuAD).

A row with the wrong number of fields, an empty text or a label that is none is left out, counted and named in the
notes. GLUE keeps the labels of its test parts to itself: where there are none, there is no test part.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..errors import ClearheadError, near
from ..files import parse_object
from . import pairs
from .kinds import Dataset, Labelled, Question, Questions
from .sentences import by_sentence
from .text_files import Folder, find, left_out, locate, lot, parse_rows, read_bytes, read_lines, require

SENTENCES = 0.3  # of SST-2, to choose by
UNLABELLED = "no test part: GLUE publishes it without labels"
WORD_LISTS = (
    *("WS-353-ALL", "WS-353-SIM", "WS-353-REL", "SIMLEX-999", "SimVerb-3500", "MEN-TR-3k", "RW-STANFORD"),
    *("MTurk-771", "MTurk-287", "RG-65", "MC-30", "YP-130", "VERB-143"),
)


@dataclass(frozen=True)
class Columns:
    """Which tab field of a line holds what; a heading must be there word for word."""

    labels: Mapping[str, int]
    """A label as it is written, and the number of its class."""
    label: int
    text: int
    second: int | None = None
    count: int = 4
    heading: str | None = None

    def row(self, line: str) -> tuple[str, str, int]:
        fields = line.split("\t")
        require(len(fields) == self.count, f"{len(fields)} fields, not {self.count}")
        label = fields[self.label].strip()
        require(label in self.labels, f"the label is {label[:20]!r}, not {' or '.join(self.labels)}")
        text = fields[self.text].strip()
        second = "" if self.second is None else fields[self.second].strip()
        require(text and (second or self.second is None), "a text is empty")
        return text, second, self.labels[label]

    def read(self, file: Path, member: str | None = None) -> tuple[Labelled, tuple[str, ...]]:
        """One part, and notes on what was left out of it."""
        lines = read_lines(file, member)
        if self.heading is not None:
            first = lines[0] if lines else ""
            require(first == self.heading, f"{file} must begin with {self.heading!r}, not with {first[:60]!r}")
        rows, bad = parse_rows(file, lines, self.row, headings=0 if self.heading is None else 1)
        texts, seconds, labels = zip(*rows, strict=True)
        part = Labelled(texts, torch.tensor(labels), None if self.second is None else seconds)
        return part, left_out(file, bad, len(rows))


def sst2(folder: Folder = None, split: str = "official") -> Dataset[Labelled]:
    """67,349 phrases of film reviews to train on, 872 sentences to choose by, 1,821 to test where they have labels.

    GLUE's own test.tsv has no labels; `test-labeled.tsv` has them from the original treebank. To choose by unseen
    sentences there is `split="sentences"`: 30% of those of the training part are "valid", without their phrases in
    "train", and the 872 are "test".
    """
    splits = ("official", "sentences")
    require(split in splits, f"sst2 can't be split by {split!r}: take {' or '.join(splits)}{near(split, splits)}")
    columns = Columns({"0": 0, "1": 1}, text=0, label=1, count=2, heading="sentence\tlabel")
    files = {"train": find("sst2", ["train.tsv"], folder), "valid": find("sst2", ["dev.tsv"], folder)}
    if test := locate("sst2", ["test-labeled.tsv"], folder):
        files["test"] = test
    read = _glue("sst2", files, columns, ("negative", "positive"), () if test else (UNLABELLED,))
    return read if split == "official" else _by_sentence(read)


def _by_sentence(read: Dataset[Labelled]) -> Dataset[Labelled]:
    """For pilots: unseen sentences to choose by, and what people report of GLUE as "test"."""
    train, valid = by_sentence(read.parts["train"], SENTENCES)
    left = len(read.parts["train"]) - len(train) - len(valid)
    told = f"{len(valid):,} sentences of train are valid, {left:,} phrases of them are left out; test is GLUE's dev"
    parts = {"train": train, "valid": valid, "test": read.parts["valid"]}
    official = {"official_test": read.parts["test"]} if "test" in read.parts else {}
    return replace(read, parts=parts | official, notes=(*read.notes, told))


def rte(folder: Folder = None) -> Dataset[Labelled]:
    """2,490 pairs to train on and 277 to choose by: does the second sentence follow from the first?"""
    classes = ("entailment", "not_entailment")
    labels = {name: number for number, name in enumerate(classes)}
    heading = "index\tsentence1\tsentence2\tlabel"
    columns = Columns(labels, text=1, second=2, label=3, heading=heading)
    files = {"train": find("rte", ["train.tsv"], folder), "valid": find("rte", ["dev.tsv"], folder)}
    return _glue("rte", files, columns, classes, (UNLABELLED,))


def _glue(
    name: str, files: Mapping[str, Path], columns: Columns, classes: tuple[str, ...], notes: tuple[str, ...]
) -> Dataset[Labelled]:
    read = {part: columns.read(file) for part, file in files.items()}
    parts = {part: rows for part, (rows, _) in read.items()}
    return Dataset(name, "labelled", parts, classes, notes=sum((said for _, said in read.values()), notes))


def cola(folder: Folder = None) -> Dataset[Labelled]:
    """8,551 sentences from linguists' works to train on, 1,043 to choose by: 527 of the same works, 516 of others.

    Read from the authors' zip, from its unpacked `raw/`, or from GLUE's train.tsv and dev.tsv.
    """
    columns = Columns({"0": 0, "1": 1}, text=3, label=1)
    archive = locate("cola", ["cola_public.zip", "cola_public_1.1.zip"], folder)

    def read(stem: str) -> tuple[Labelled, tuple[str, ...]]:
        if archive:
            return columns.read(archive, f"cola_public/raw/{stem}.tsv")
        return columns.read(find("cola", [f"{place}/{stem}.tsv" for place in ("raw", "cola_public/raw")], folder))

    glue = None if archive else locate("cola", ["train.tsv"], folder)
    if glue:
        files = {"train": glue, "valid": find("cola", ["dev.tsv"], folder)}
        return _glue("cola", files, columns, ("unacceptable", "acceptable"), (UNLABELLED,))
    (train, notes), (near_by, more), (far, most) = map(read, ("in_domain_train", "in_domain_dev", "out_of_domain_dev"))
    valid = Labelled([*near_by.texts, *far.texts], torch.cat((near_by.labels, far.labels)))
    kinds = f"valid is {len(near_by)} sentences from the articles of train, then {len(far)} from others"
    notes = (kinds, "no test part: its labels are not public", *notes, *more, *most)
    return Dataset("cola", "labelled", {"train": train, "valid": valid}, ("unacceptable", "acceptable"), notes=notes)


def mrpc(folder: Folder = None) -> Dataset[Labelled]:
    """4,076 pairs of sentences from the news to train on, 1,725 to test: is the second a paraphrase of the first?"""
    parts, notes = _from_pairs({part: pairs.mrpc(part, folder) for part in ("train", "test")}, torch.int64)
    missing = "no valid part: the corpus has none, so hold some of train out"
    return Dataset("mrpc", "labelled", parts, ("different", "paraphrase"), notes=(missing, *notes))


def stsb(folder: Folder = None) -> Dataset[Labelled]:
    """5,749 pairs of sentences to train on, 1,500 to choose by, 1,379 to test, alike from 0 to 5."""
    names = {"train": "train", "valid": "dev", "test": "test"}
    parts, notes = _from_pairs({part: pairs.stsb(name, folder) for part, name in names.items()}, torch.float32)
    return Dataset("stsb", "scored", parts, notes=notes)


def _from_pairs(read: Mapping[str, pairs.Pairs], dtype: torch.dtype) -> tuple[dict[str, Labelled], tuple[str, ...]]:
    parts = {
        part: Labelled(
            [pair.first for pair in found.rows],
            torch.tensor([pair.score for pair in found.rows], dtype=dtype),
            [pair.second for pair in found.rows],
        )
        for part, found in read.items()
    }
    return parts, sum((found.notes for found in read.values()), ())


def wordsim(folder: Folder = None) -> Dataset[Labelled]:
    """Pairs of words with how alike people find them: a part for each list, all for testing, each on its own scale."""
    parts: dict[str, Labelled] = {}
    notes: tuple[str, ...] = ("every part is a test of its own: there is nothing to train on",)
    find("wordsim", [f"EN-{name}.txt" for name in WORD_LISTS], folder)
    for name in WORD_LISTS:
        file = locate("wordsim", [f"EN-{name}.txt"], folder)
        if file is None:
            notes += (f"EN-{name}.txt is missing",)
            continue
        rows, bad = parse_rows(file, read_lines(file), _word_pair)
        first, second, scores = zip(*rows, strict=True)
        parts[name] = Labelled(first, torch.tensor(scores, dtype=torch.float32), second)
        notes += left_out(file, bad, len(rows))
    return Dataset("wordsim", "scored", parts, notes=notes)


def _word_pair(line: str) -> tuple[str, str, float]:
    fields = line.split()
    require(len(fields) == 3, f"{len(fields)} fields, not 3")
    try:
        score = float(fields[2])
    except ValueError:
        score = math.nan
    require(math.isfinite(score), f"the score is {fields[2][:20]!r}, not a number")
    return fields[0], fields[1], score


def squad(folder: Folder = None, split: str = "official") -> Dataset[Questions]:
    """Questions on Wikipedia: 87,599 to train on and 10,570 to choose by, in version 1.1; nobody outside has its test.

    `split="article"` is for those who have the dev file alone: its articles are dealt out, 70% to train, 15% to
    valid, 15% to test, by their titles. A question without an answer, or whose answer is not where it says, is left
    out.
    """
    splits = ("official", "article")
    require(split in splits, f"squad can't be split by {split!r}: take {' or '.join(splits)}{near(split, splits)}")
    valid, notes = _questions(find("squad", ["dev-v1.1.json.gz", "dev-v1.1.json"], folder))
    if split == "article":
        told = "the dev file was split by article: it is not comparable with published figures"
        return Dataset("squad", "questions", by_article(valid), notes=(told, *notes))
    train = locate("squad", ["train-v1.1.json.gz", "train-v1.1.json"], folder)
    notes = ("no test part: it is not public", *notes)
    if train is None:
        missing = "train-v1.1.json is missing: split='article' makes three parts of the dev file"
        return Dataset("squad", "questions", {"valid": valid}, notes=(missing, *notes))
    rows, more = _questions(train)
    return Dataset("squad", "questions", {"train": rows, "valid": valid}, notes=(*notes, *more))


def by_article(questions: Questions, valid: float = 0.15, test: float = 0.15) -> dict[str, Questions]:
    """Three parts that share no article; which goes where depends on the titles alone."""
    titles = sorted({row.article for row in questions.rows}, key=lot)
    last, middle = round(len(titles) * test), round(len(titles) * (valid + test))
    place = {title: "test" if i < last else "valid" if i < middle else "train" for i, title in enumerate(titles)}
    return {
        part: Questions([row for row in questions.rows if place[row.article] == part])
        for part in ("train", "valid", "test")
    }


def _questions(file: Path) -> tuple[Questions, tuple[str, ...]]:
    content = parse_object(read_bytes(file), str(file))
    good: list[Question] = []
    bad: list[str] = []
    try:
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                for asked in paragraph["qas"]:
                    try:
                        good.append(_question(asked, article["title"], paragraph["context"]))
                    except ClearheadError as problem:
                        bad.append(f"{asked['id']}: {problem}")
    except (KeyError, TypeError, AttributeError) as error:
        raise ClearheadError(f"{file} is not in SQuAD's form: {type(error).__name__} {error}") from None
    require(good, f"{file} holds no question that can be read{f' ({bad[0]})' if bad else ''}")
    return Questions(good), left_out(file, bad, len(good), "questions")


def _question(asked: Mapping[str, Any], title: str, passage: str) -> Question:
    question, answers = asked["question"].strip(), asked["answers"]
    require(question and answers, "no question or no answer")
    for answer in answers:
        start, text = answer["answer_start"], answer["text"]
        there = text and passage[start : start + len(text)] == text
        require(there, f"the answer {text[:20]!r} is not at {start} of its passage")
    places = tuple((answer["text"], answer["answer_start"]) for answer in answers)
    return Question(asked["id"], title, question, passage, places)
