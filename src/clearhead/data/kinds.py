"""What a data set is once it is read, whatever file it came from: parts ("train", "valid", "test") of one kind.

A kind says what there is to learn: pictures with classes, labelled texts, parallel texts, running text, questions with
their answers, pairs with a score. A reader fills these and nothing else; training asks for nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from torch import Tensor


class Part(Protocol):
    def __len__(self) -> int: ...


P = TypeVar("P", bound=Part, covariant=True)


@dataclass(frozen=True)
class Pictures:
    """Small pictures of one size live in memory, (N,C,H,W) bytes; others stay files until they are asked for."""

    pixels: Tensor | Sequence[Path]
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Labelled:
    """Texts, or pairs of texts, each with the number of its class (int64) or with a score (float32)."""

    texts: Sequence[str]
    labels: Tensor
    seconds: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Parallel:
    """Line by line the same in two languages."""

    sources: Sequence[str]
    targets: Sequence[str]

    def __len__(self) -> int:
        return len(self.sources)


@dataclass(frozen=True)
class Running:
    """Documents of running text, for language models."""

    documents: Sequence[str]

    def __len__(self) -> int:
        return len(self.documents)


@dataclass(frozen=True)
class Question:
    """A question, the passage that holds its answer, and the accepted answers with the character each starts at."""

    id: str
    article: str
    question: str
    passage: str
    answers: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Questions:
    rows: Sequence[Question]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Dataset(Generic[P]):
    """A data set that was read: its parts, its classes where it has any, and what was left out and why.

    `kind` is "pictures", "labelled", "scored", "parallel", "running" or "questions".
    """

    name: str
    kind: str
    parts: Mapping[str, P]
    classes: tuple[str, ...] = ()
    languages: tuple[str, str] | None = None
    notes: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} {len(part):,}" for name, part in self.parts.items())
        classes = f", {len(self.classes)} classes" if self.classes else ""
        return f"{self.name}: {self.kind}{classes} ({sizes})"
