"""`answer`: the stretch of a passage that answers a question, read in overlapping windows where it is long."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..data import Tokenizer
from ..errors import ClearheadError
from ..models.bert import BERT
from ..trace import underneath
from .classify import padded_rows
from .embed import answering, encoder_and_tokenizer

WINDOW = 384  # tokens of question and passage together, as BERT's authors read SQuAD
OVERLAP = 128
LONGEST = 30


@dataclass(frozen=True)
class Span:
    """`text` is passage[start:end]; `score` is the sum of the two logits, by which spans are ranked."""

    text: str
    start: int
    end: int
    probability: float
    score: float


class Asked(NamedTuple):
    """A question with its passage: what stands around the passage's tokens, these tokens, and their characters."""

    passage: str
    before: tuple[list[int], list[int]]
    tokens: tuple[list[int], list[int]]
    after: tuple[list[int], list[int]]
    characters: list[tuple[int, int]]


class Window(NamedTuple):
    """A row of the batch: which question's it is, where in the passage's tokens it begins, how many it has."""

    asked: int
    start: int
    count: int
    row: tuple[list[int], list[int]]
    offset: int


def answer(
    model: nn.Module,
    question: str,
    passage: str,
    top: int = 1,
    *,
    longest: int = LONGEST,
    window: int = WINDOW,
    overlap: int | None = None,
) -> list[Span]:
    """The `top` best answers to a question in a passage, the best first; see `answers`."""
    return answers(model, [(question, passage)], top, longest=longest, window=window, overlap=overlap)[0]


def answers(
    model: nn.Module,
    asked: Sequence[tuple[str, str]],
    top: int = 1,
    *,
    longest: int = LONGEST,
    window: int = WINDOW,
    overlap: int | None = None,
    batch: int = 16,
    progress: Callable[[int], None] = lambda done: None,
) -> list[list[Span]]:
    """For each (question, passage) the `top` best spans of the passage, by a BERT of task answer.

    longest   the most tokens of an answer
    window    the most tokens that are read at once, within the model's context
    overlap   how many tokens of the passage neighbouring windows share: 128, or half a window where that is less
    batch     how many windows of like length run together; it changes the speed, not the answers
    progress  called after each batch with the number of its windows

    A span's score is its best over the windows that hold it; its probability is the softmax over the scores of every
    span of at most `longest` tokens, so these sum to 1 over the passage.
    """
    reader, tok = _reader(model)
    for name, value in (("top", top), ("longest", longest), ("window", window), ("batch", batch)):
        if type(value) is not int or value < 1:
            raise ClearheadError(f"{name} must be a whole number of at least 1, not {value!r}")
    prepared = [prepared_question(tok, question, passage) for question, passage in asked]
    limit = min(window, reader.config.context)
    windows = [part for number, one in enumerate(prepared) for part in windows_of(number, one, limit, overlap)]
    bands = [torch.full((len(one.characters), min(longest, len(one.characters))), -math.inf) for one in prepared]
    windows.sort(key=lambda part: -len(part.row[0]))
    with answering(reader):
        for first in range(0, len(windows), batch):
            chosen = windows[first : first + batch]
            logits = reader(*padded_rows([part.row for part in chosen], reader)).float().cpu()
            for part, scores in zip(chosen, logits, strict=True):
                enter(bands[part.asked], part, scores[part.offset : part.offset + part.count])
            progress(len(chosen))
    return [best_spans(one, band, top) for one, band in zip(prepared, bands, strict=True)]


def _reader(model: nn.Module) -> tuple[BERT, Tokenizer]:
    target = underneath(model)
    if not isinstance(target, BERT):
        raise ClearheadError(f"questions are answered from a passage by a BERT, not by a {type(target).__name__}")
    if target.config.task != "answer":
        task = f"its task is {target.config.task!r}" if target.config.task else "it has no task"
        raise ClearheadError(f"this BERT gives no spans of a passage ({task}): give one of task answer")
    return encoder_and_tokenizer(target)


def prepared_question(tok: Tokenizer, question: str, passage: str) -> Asked:
    if not question.strip():
        raise ClearheadError("the question is empty")
    ids, segments = tok.pair(question, passage)
    characters = tok.offsets(question, passage)
    places = [number for number, place in enumerate(characters) if place is not None]
    if not places:
        raise ClearheadError("the passage is empty: there is nothing to answer from")
    first, last = places[0], places[-1] + 1
    before, tokens, after = (
        (ids[part], segments[part]) for part in (slice(first), slice(first, last), slice(last, None))
    )
    return Asked(passage, before, tokens, after, [place for place in characters[first:last] if place is not None])


def windows_of(number: int, asked: Asked, limit: int, overlap: int | None) -> Iterator[Window]:
    """Stretches of the passage, each with the question before it, up to the one that ends with the passage."""
    offset, count = len(asked.before[0]), len(asked.characters)
    room = limit - offset - len(asked.after[0])
    if room < 1:
        raise ClearheadError(f"the question leaves no room for the passage in {limit} tokens: shorten it")
    shared = min(OVERLAP, room // 2) if overlap is None else overlap
    if type(shared) is not int or not 0 <= shared < room:
        raise ClearheadError(f"windows of {room} tokens of the passage can share 0 to {room - 1}, not {shared!r}")
    for start in range(0, max(1, count - shared), room - shared):
        stop = min(start + room, count)
        ids, segments = (
            [*before, *tokens[start:stop], *after]
            for before, tokens, after in zip(asked.before, asked.tokens, asked.after, strict=True)
        )
        yield Window(number, start, stop - start, (ids, segments), offset)


def enter(band: Tensor, window: Window, scores: Tensor) -> None:
    """scores (tokens, 2) of one window into band (tokens, longest): a row is a span's start, a column its length."""
    starts, ends = scores.unbind(-1)
    longest = band.shape[1]
    beyond = ends.new_full((longest - 1,), -math.inf)
    spans = starts[:, None] + torch.cat((ends, beyond)).unfold(0, longest, 1)
    rows = band[window.start : window.start + window.count]
    torch.maximum(rows, spans, out=rows)


def best_spans(asked: Asked, band: Tensor, top: int) -> list[Span]:
    """The best spans with the characters that they cover. Tokens may share a character: no stretch comes twice."""
    scores = band.flatten()
    probabilities = scores.softmax(-1)
    found: dict[tuple[int, int], Span] = {}
    for place in scores.argsort(descending=True, stable=True).tolist():
        if len(found) == top or scores[place] == -math.inf:
            break
        first, more = divmod(place, band.shape[1])
        start, end = asked.characters[first][0], asked.characters[first + more][1]
        text = asked.passage[start:end]
        start, text = start + len(text) - len(text.lstrip()), text.strip()
        span = Span(text, start, start + len(text), probabilities[place].item(), scores[place].item())
        found.setdefault((span.start, span.end), span)
    return list(found.values())
