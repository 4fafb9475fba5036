"""Pairs of sentences that people judged: MRPC (is it a paraphrase?) and STS-B (how alike, from 0 to 5?).

Read as their authors publish them, from `mrpc/` and `stsb/` inside the folder that CLEARHEAD_DATA names:

    mrpc/msr_paraphrase_{train,test}.txt   Dolan and Brockett 2005: UTF-8, one heading line, five tab fields
    stsb/sts-{train,dev,test}.csv          Cer et al. 2017: seven tab fields (licences may follow), no heading
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .text_files import Folder, find, left_out, parse_rows, read_lines, require


@dataclass(frozen=True)
class Pair:
    """Two sentences and what people said: 0 or 1 in MRPC, 0 to 5 in STS-B."""

    first: str
    second: str
    score: float


@dataclass(frozen=True)
class Pairs:
    """One part of a data set. `bad` names the rows that were left out, and why; `notes` says it in short."""

    name: str
    rows: tuple[Pair, ...]
    bad: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)


def mrpc(part: str = "train", folder: Folder = None) -> Pairs:
    """The Microsoft Research Paraphrase Corpus: 4,076 pairs to train on, 1,725 to test, score 1 for a paraphrase."""
    file = _file("mrpc", part, {name: f"msr_paraphrase_{name}.txt" for name in ("train", "test")}, folder)
    return _read(f"MRPC {part}", file, _mrpc_pair, headings=1)


def stsb(part: str = "dev", folder: Folder = None) -> Pairs:
    """The STS Benchmark: 5,749 pairs to train on, 1,500 to develop with, 1,379 to test; score 0 to 5."""
    file = _file("stsb", part, {name: f"sts-{name}.csv" for name in ("train", "dev", "test")}, folder)
    return _read(f"STS-B {part}", file, _stsb_pair, headings=0)


def _file(name: str, part: str, parts: dict[str, str], folder: Folder) -> Path:
    """Where a part of a data set lies; what is missing is told together with where to put it."""
    require(part in parts, f"{name} has no part {part!r}: take {' or '.join(parts)}")
    return find(name, [parts[part]], folder)


def _read(name: str, file: Path, pair: Callable[[list[str]], Pair], headings: int) -> Pairs:
    rows, bad = parse_rows(file, read_lines(file), lambda line: pair(line.split("\t")), headings, what="pair")
    return Pairs(name, tuple(rows), tuple(bad), left_out(file, bad, len(rows)))


def _mrpc_pair(fields: list[str]) -> Pair:
    require(len(fields) == 5, f"{len(fields)} fields, not 5")
    quality, _, _, first, second = fields
    require(quality in ("0", "1"), f"the judgement is {quality[:20]!r}, not 0 or 1")
    return _pair(first, second, float(quality))


def _stsb_pair(fields: list[str]) -> Pair:
    require(len(fields) >= 7, f"{len(fields)} fields, not 7")
    return _pair(fields[5], fields[6], _score(fields[4]))


def _score(text: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    require(0 <= score <= 5, f"the score is {text[:20]!r}, not a number from 0 to 5")
    return score


def _pair(first: str, second: str, score: float) -> Pair:
    first, second = first.strip(), second.strip()
    require(bool(first and second), "a sentence is empty")
    return Pair(first, second, score)
