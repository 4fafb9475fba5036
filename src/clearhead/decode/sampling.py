"""Choosing the next token: the filters people use, in the order everyone applies them, and a draw for each row alone.

Repetition penalty (Keskar et al. 2019), then temperature, top-k, top-p (Holtzman et al. 2020), min-p (Nguyen et al.
2024). A draw takes one number from the row's own generator and finds it in the row's cumulative probabilities, so what
a row draws does not depend on its neighbours.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..errors import ClearheadError

COLDEST = 1e-30  # colder is the same draw, but would divide by a zero of fp32


@dataclass(frozen=True)
class Sampling:
    """temperature 0 takes the best token always; 1 draws from the model's own probabilities.

    top_k               only the k best tokens
    top_p               only the fewest tokens whose probabilities reach p together
    min_p               only tokens at least min_p times as likely as the best
    repetition_penalty  above 1, tokens that are already there become less likely
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        _require(_finite(self.temperature) and self.temperature >= 0, "temperature", "at least 0", self.temperature)
        whole = self.top_k is None or (type(self.top_k) is int and self.top_k >= 1)
        _require(whole, "top_k", "a whole number of at least 1", self.top_k)
        for name in ("top_p", "min_p"):
            value = getattr(self, name)
            _require(value is None or (_finite(value) and 0 < value <= 1), name, "above 0 and at most 1", value)
        penalty = self.repetition_penalty
        _require(_finite(penalty) and penalty > 0, "repetition_penalty", "above 0", penalty)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    @property
    def plain(self) -> bool:
        """The best token by the model's own scores: nothing that stands before has a say in it."""
        return self.greedy and self.repetition_penalty == 1

    def scores(self, logits: Tensor, history: Sequence[Sequence[int]]) -> Tensor:
        """logits (R,V) -> scores of the same shape, -inf where a token is filtered out; softmax gives the chances."""
        if self.plain:
            return logits
        scores = logits.float()
        if self.repetition_penalty != 1:
            scores = _penalised(scores, history, self.repetition_penalty)
        if self.greedy:
            return scores
        scores = (scores - scores.amax(-1, keepdim=True)) / max(self.temperature, COLDEST)
        if self.top_k is not None and self.top_k < scores.shape[-1]:
            scores = scores.masked_fill(scores < scores.topk(self.top_k).values[:, -1:], -math.inf)
        if self.top_p is not None and self.top_p < 1:
            scores = scores.masked_fill(_beyond(scores, self.top_p), -math.inf)
        if self.min_p is not None:
            least = scores.amax(-1, keepdim=True) + math.log(self.min_p)
            scores = scores.masked_fill(scores < least, -math.inf)
        return scores

    def choose(self, scores: Tensor, generators: Sequence[Generator]) -> list[int]:
        """One token for each row of `scores` (R,V)."""
        return scores.argmax(-1).tolist() if self.greedy else draw(scores, generators)


def draw(scores: Tensor, generators: Sequence[Generator]) -> list[int]:
    """A token for each row, with probability softmax(scores), by one uniform number from the row's own generator."""
    chances = scores.double().softmax(-1)
    reached = chances.cumsum(-1)
    numbers = torch.stack([torch.rand((), generator=generator, dtype=torch.float64) for generator in generators])
    found = torch.searchsorted(reached, (numbers.to(reached.device) * reached[:, -1])[:, None], right=True)
    last = (chances > 0).long().cumsum(-1).argmax(-1, keepdim=True)  # rounding may not carry a draw past what can be
    return torch.minimum(found, last)[:, 0].tolist()


def generators(seeds: Sequence[int]) -> list[Generator]:
    return [Generator().manual_seed(seed) for seed in seeds]


def _penalised(scores: Tensor, history: Sequence[Sequence[int]], penalty: float) -> Tensor:
    """Scores of tokens that are there already: divided if positive, multiplied if negative, once each."""
    scores = scores.clone()
    for row, tokens in enumerate(history):
        seen = torch.tensor(sorted(set(tokens)), device=scores.device, dtype=torch.long)
        known = scores[row, seen]
        scores[row, seen] = torch.where(known > 0, known / penalty, known * penalty)
    return scores


def _beyond(scores: Tensor, top_p: float) -> Tensor:
    """True for tokens behind the most probable ones that together reach `top_p`; the best is always kept."""
    ranked, order = scores.sort(-1)
    behind = ranked.softmax(-1).cumsum(-1) <= 1 - top_p
    behind[:, -1] = False
    return torch.zeros_like(behind).scatter(-1, order, behind)


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _require(condition: bool, name: str, wanted: str, value: object) -> None:
    if not condition:
        raise ClearheadError(f"{name} must be {wanted}, not {value!r}")
