"""What an encoder-decoder writes by itself for given sources, and how near it comes to what it should have said."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..data.tokenizers import Tokenizer
from ..decode import Beams, Limits, beam_search, collect, generate
from ..errors import ClearheadError
from .pairs import Row

SCORES = ("exact_match", "bleu", "bleu_lower", "chrf")
WRITTEN_AT_ONCE = 64


@dataclass(frozen=True)
class Ends:
    """Numbers that begin and end a target, and those that are never written."""

    start: int
    end: int
    never: frozenset[int]

    @classmethod
    def of(cls, config: Any, target: Tokenizer) -> "Ends":
        end = target.special.get("eos") if config.end_token is None else config.end_token
        if config.start_token is None or end is None:
            raise ClearheadError("the model's config names no start_token or no end_token: it can't learn to translate")
        nameless = set(range(getattr(config, "target_vocab", None) or config.vocab)) - set(target.vocabulary.values())
        padding = {config.pad_token, target.special.get("pad")} - {None, end}
        return cls(config.start_token, end, frozenset(nameless | padding))


def written(model: Any, sources: Sequence[Row], ends: Ends, beams: int = 1, penalty: float = 1.0) -> list[list[int]]:
    """What the model writes for each source, greedily or by beam search, without the token that ends it."""
    found: dict[int, list[int]] = {}
    order = sorted(range(len(sources)), key=lambda row: len(sources[row]))
    context = getattr(model.config, "context", None)
    for first in range(0, len(order), WRITTEN_AT_ONCE):
        rows = order[first : first + WRITTEN_AT_ONCE]
        given = [sources[row] for row in rows]
        length = min(2 * max(map(len, given)) + 10, context or math.inf)
        stop = frozenset([ends.end])
        if beams == 1:
            steps = generate(model, given, Limits(int(length), stop, ends.never), prefix=[ends.start])
            tokens = [row.tokens for row in collect(len(given), steps)]
        else:
            wanted = Beams(beams, penalty, length=int(length))
            searches = beam_search(model, given, wanted, end=stop, never=ends.never, prefix=[ends.start])
            tokens = [list(search.finished[0].tokens) for search in searches]
        found |= {row: [t for t in said if t != ends.end] for row, said in zip(rows, tokens, strict=True)}
    return [found[row] for row in range(len(sources))]


def scored(said: Sequence[str], true: Sequence[str], scores: Sequence[str]) -> dict[str, float]:
    """Exact match as a share of the lines; BLEU and chrF of the whole, as sacrebleu computes them (13a)."""
    figures: dict[str, float] = {}
    for score in scores:
        if score == "exact_match":
            figures[score] = sum(a.strip() == b.strip() for a, b in zip(said, true, strict=True)) / len(true)
        else:
            figures[score] = _metric(score).corpus_score(list(said), [list(true)]).score
    return figures


def signatures(scores: Sequence[str]) -> list[str]:
    """How sacrebleu computes each score, in its own words: what makes two figures comparable."""
    told = []
    for score in scores:
        if score != "exact_match":
            metric = _metric(score)
            metric.corpus_score(["a"], [["a"]])  # it counts the references first
            told.append(f"{score}: {metric.get_signature()}")
    return told


def _metric(score: str) -> Any:
    metrics = sacrebleu_module().metrics
    return metrics.CHRF() if score == "chrf" else metrics.BLEU(lowercase=score == "bleu_lower")


def sacrebleu_module() -> Any:
    try:
        import sacrebleu  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ClearheadError(
            "BLEU and chrF are computed by sacrebleu: pip install sacrebleu, or leave them out"
        ) from None
    return sacrebleu
