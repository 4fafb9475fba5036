"""What a head does, as numbers: each score is a formula over one head's weights A (L,L), rows look at columns.

A score is a mean over the tokens that it can be said of, so 1 means: always, and with all of the weight. Where there is
no such token (no word occurs twice), there is no score.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import ClearheadError, near
from .attention import AttentionMap


@dataclass(frozen=True)
class HeadScore:
    """A score's formula, what a head does that scores high, and how it is computed.

    compute  weights (H,L,L) and the tokens' names -> (H,); None where it can't be said of any token
    lowest   the most telling head is the one that scores lowest
    """

    formula: str
    means: str
    compute: Callable[[Tensor, Sequence[str]], Tensor | None]
    lowest: bool = False


@dataclass(frozen=True)
class BestHead:
    """The head that does something most clearly. Layer and head count from 0."""

    layer: int
    head: int
    score: float
    site: str


def _shifted(by: int) -> Callable[[Tensor, Sequence[str]], Tensor | None]:
    def compute(weights: Tensor, tokens: Sequence[str]) -> Tensor | None:
        return weights.diagonal(by, 1, 2).mean(-1) if len(tokens) > abs(by) else None

    return compute


def _first(weights: Tensor, tokens: Sequence[str]) -> Tensor | None:
    return weights[:, 1:, 0].mean(-1) if len(tokens) > 1 else None


def _alike(tokens: Sequence[str]) -> Tensor:
    """(L,L) true where two tokens, or a token and itself, have the same name."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(tokens))}
    of = torch.tensor([numbers[name] for name in tokens])
    return of[:, None] == of


def _same(weights: Tensor, tokens: Sequence[str]) -> Tensor | None:
    return _on(weights, _alike(tokens) & ~torch.eye(len(tokens), dtype=torch.bool))


def _induction(weights: Tensor, tokens: Sequence[str]) -> Tensor | None:
    earlier = _alike(tokens).tril(-2)
    return _on(weights, torch.cat([torch.zeros(len(tokens), 1, dtype=torch.bool), earlier[:, :-1]], 1))


def _on(weights: Tensor, wanted: Tensor) -> Tensor | None:
    """The weight on the wanted cells of a row, in the mean over the rows that have some."""
    rows = wanted.any(1)
    return (weights * wanted).sum(-1)[:, rows].mean(-1) if rows.any() else None


def _entropy(weights: Tensor, tokens: Sequence[str]) -> Tensor:
    return torch.special.entr(weights).sum(-1).mean(-1)


SCORES: dict[str, HeadScore] = {
    "previous": HeadScore("mean over i >= 1 of A[i, i-1]", "looks at the token before", _shifted(-1)),
    "next": HeadScore("mean over i < L-1 of A[i, i+1]", "looks at the token behind", _shifted(1)),
    "first": HeadScore("mean over i >= 1 of A[i, 0]", "looks at the first token ([CLS])", _first),
    "self": HeadScore("mean over i of A[i, i]", "looks at the token itself", _shifted(0)),
    "same": HeadScore(
        "mean over i of the sum of A[i, j] over j != i with t_j = t_i", "looks at the same token elsewhere", _same
    ),
    "induction": HeadScore(
        "mean over i of the sum of A[i, j+1] over j < i-1 with t_j = t_i",
        "looks at what came behind the same token earlier",
        _induction,
    ),
    "entropy": HeadScore(
        "mean over i of -sum over j of A[i, j] ln A[i, j]", "low: looks at few tokens; high: at many", _entropy, True
    ),
}


def head_scores(one: AttentionMap) -> dict[str, Tensor]:
    """Each score of SCORES for every head of a layer (H,), those left out that can't be said of any token."""
    looks, seen = one.weights.shape[1:]
    if looks != seen:
        raise ClearheadError(f"{one.site} looks from {looks} tokens at {seen} others: heads are scored within one text")
    weights = one.weights.double()
    found = {name: score.compute(weights, one.rows) for name, score in SCORES.items()}
    return {name: values.float() for name, values in found.items() if values is not None}


def best_head(maps: Sequence[AttentionMap], score: str) -> BestHead:
    """Of all layers the head that scores highest; for "entropy" the one that scores lowest."""
    if score not in SCORES:
        raise ClearheadError(f"there is no score '{score}'{near(score, SCORES)}: known are {', '.join(SCORES)}")
    found: list[BestHead] = []
    for one in maps:
        values = head_scores(one).get(score, torch.empty(0)).tolist()
        found += [BestHead(one.layer, head, value, one.site) for head, value in enumerate(values)]
    if not found:
        raise ClearheadError(f"no token of this input has a score '{score}': {SCORES[score].formula}")
    sign = -1 if SCORES[score].lowest else 1
    return max(found, key=lambda best: sign * best.score)
