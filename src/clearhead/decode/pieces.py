"""What a row gets, token by token, and when it stops."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..errors import ClearheadError
from .allowed import Allowed


@dataclass(frozen=True)
class Piece:
    """A token that one row got. `logprob` is the model's own, before any filter; `best` are its first choices.

    `reason` is set when it was the row's last: "end" (the end token, not part of the text), "stop", "length" (as many
    as asked for, or as the context holds), "closed" (a sequence of the allowed set is complete).
    """

    row: int
    token: int
    logprob: float
    reason: str | None = None
    best: tuple[tuple[int, float], ...] = ()


@dataclass
class Written:
    """What a row has written so far."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    best: list[tuple[tuple[int, float], ...]] = field(default_factory=list)
    reason: str | None = None

    def add(self, piece: Piece) -> None:
        self.tokens.append(piece.token)
        self.logprobs.append(piece.logprob)
        self.best.append(piece.best)
        self.reason = piece.reason


Stopped = Callable[[int, list[int]], bool]


@dataclass(frozen=True)
class Limits:
    """When a row stops: at an end token, after `length` tokens, when `stopped(row, tokens)` says so.

    never   tokens that are not written at all (Marian's padding)
    window  a row longer than the context sees its last tokens alone, instead of being refused
    """

    length: int = 64
    end: frozenset[int] = frozenset()
    never: frozenset[int] = frozenset()
    stopped: Stopped | None = None
    window: bool = False

    def __post_init__(self) -> None:
        if type(self.length) is not int or self.length < 1:
            raise ClearheadError(f"a length must be a whole number of at least 1, not {self.length!r}")


def collect(rows: int, steps: Iterator[list[Piece]]) -> list[Written]:
    """All of it, when nobody watches."""
    written = [Written() for _ in range(rows)]
    for pieces in steps:
        for piece in pieces:
            written[piece.row].add(piece)
    return written


def with_reason(piece: Piece, before: list[int], limits: Limits, most: int, allowed: Allowed | None) -> Piece:
    tokens = [*before, piece.token]
    reason = None
    if piece.token in limits.end:
        reason = "end"
    elif allowed is not None and not allowed.next(tokens):
        reason = "closed"
    elif limits.stopped is not None and limits.stopped(piece.row, tokens):
        reason = "stop"
    elif len(tokens) >= most:
        reason = "length"
    return piece if reason is None else Piece(piece.row, piece.token, piece.logprob, reason, piece.best)
