"""What is alike: a query against lines, all pairs of lines, and one word in several sentences, by cosine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..errors import ClearheadError
from ..ops import cosine, nearest
from .embed import answering, embed, encoder_and_tokenizer, shortened
from .words import word_places

ROOM = 2**25  # of a block of cosines, in numbers


@dataclass(frozen=True)
class Match:
    """Two texts by their numbers (the query has none) and their cosine."""

    score: float
    first: int | None
    second: int


def similar(
    model: nn.Module,
    texts: Sequence[str],
    query: str | None = None,
    *,
    count: int = 10,
    pooling: str = "mean",
    batch: int = 32,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Match]:
    """The `count` texts most like the query, or without one the `count` pairs most like each other; best first."""
    texts = list(texts)
    if len(texts) < (1 if query is not None else 2):
        raise ClearheadError(f"nothing to compare: {len(texts)} lines were given")
    if count < 1:
        raise ClearheadError(f"count must be at least 1, not {count}")
    if query is None:
        return _closest_pairs(embed(model, texts, pooling, True, batch, progress), count)
    asked = embed(model, [query], pooling, True, batch)[0]
    scores, rows = nearest(asked, embed(model, texts, pooling, True, batch, progress), count)
    return [Match(score, None, row) for score, row in zip(scores.tolist(), rows.tolist(), strict=True)]


def _closest_pairs(vectors: Tensor, count: int) -> list[Match]:
    """The best pairs, a block of rows at a time: all the cosines of many lines need not fit into memory."""
    best: list[Match] = []
    step = max(1, ROOM // len(vectors))
    for start in range(0, len(vectors) - 1, step):
        scores = cosine(vectors[start : start + step], vectors)
        later = torch.ones_like(scores, dtype=torch.bool).triu(start + 1)
        found, places = scores.masked_fill(~later, float("-inf")).flatten().topk(min(count, int(later.sum())))
        for score, place in zip(found.tolist(), places.tolist(), strict=True):
            row, column = divmod(place, len(vectors))
            best.append(Match(score, start + row, column))
        best = sorted(best, key=lambda match: -match.score)[:count]
    return best


@dataclass(frozen=True)
class WordInContext:
    """One word wherever it occurs, with the cosines of every occurrence and every other (n,n).

    Static vectors are the word's own rows of the token table, the same in every sentence; contextual ones are what the
    encoder makes of them there.
    """

    word: str
    sentences: list[int]
    contextual: Tensor
    static: Tensor


def word_in_context(model: nn.Module, word: str, sentences: Sequence[str]) -> WordInContext:
    """Compare a word's vectors in sentences that all have it; of a word in several pieces the mean is taken."""
    encoder, tok = encoder_and_tokenizer(model)
    if not word.strip() or not sentences:
        raise ClearheadError("give a word, and the sentences to look for it in")
    places: list[int] = []
    vectors: list[tuple[Tensor, Tensor]] = []
    for number, sentence in enumerate(sentences):
        ids, _ = shortened(*tok.batch([sentence]), encoder.config.context)
        found = word_places(tok, word, ids[0].tolist())
        if not found:
            raise ClearheadError(f"{word!r} does not occur in {sentence!r}")
        with answering(encoder):
            contextual = encoder.hidden(ids.to(encoder.device))[0].float().cpu()
            static = encoder.input.tokens(ids.to(encoder.device))[0].float().cpu()
        for start, stop in found:
            places.append(number)
            vectors.append((contextual[start:stop].mean(0), static[start:stop].mean(0)))
    if len(places) < 2:
        raise ClearheadError(f"{word!r} occurs once: give another sentence that has it")
    contextual, static = (cosine(rows, rows) for rows in map(torch.stack, zip(*vectors, strict=True)))
    return WordInContext(word, places, contextual, static)
