"""Figures that say how good answers are: pure functions of answers and truths, all between 0 and 1 or -1 and 1.

Where a figure is undefined (no positive anywhere, answers that are all the same) it is 0, as scikit-learn has it for F1
and Matthews: a run can then still be compared with another.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

Numbers = Tensor | np.ndarray | Sequence[float]

ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def accuracy(answers: Numbers, truths: Numbers) -> float:
    """The share of classes that are right."""
    given, true = _two(answers, truths)
    return float((given == true).mean())


def among_best(scores: Tensor, truths: Tensor, count: int) -> float:
    """scores (N, classes): how often the true class is one of the `count` with the highest scores."""
    best = scores.topk(min(count, scores.shape[1]), dim=1).indices
    return (best == truths[:, None]).any(1).double().mean().item()


def f1(answers: Numbers, truths: Numbers, positive: int = 1) -> float:
    """The harmonic mean of precision and recall of one class."""
    given, true = (column == positive for column in _two(answers, truths))
    both = given.sum() + true.sum()
    return float(2 * (given & true).sum() / both) if both else 0.0


def matthews(answers: Numbers, truths: Numbers) -> float:
    """Matthews' correlation of two columns of classes, for any number of classes (Gorodkin 2004)."""
    given, true = _two(answers, truths)
    classes = np.unique(np.concatenate((given, true)))
    given, true = (column[:, None] == classes for column in (given, true))
    said, are, count = given.sum(0, dtype=np.float64), true.sum(0, dtype=np.float64), len(given)
    together = (given & true).sum() * count - said @ are
    spread = (count**2 - said @ said) * (count**2 - are @ are)
    return float(together / math.sqrt(spread)) if spread else 0.0


def pearson(answers: Numbers, truths: Numbers) -> float:
    """How well a straight line joins two columns of numbers."""
    given, true = (column - column.mean() for column in _two(answers, truths))
    spread = math.sqrt(given @ given) * math.sqrt(true @ true)
    return float(np.clip(given @ true / spread, -1, 1)) if spread else 0.0


def spearman(answers: Numbers, truths: Numbers) -> float:
    """Pearson's between the ranks; equal numbers share the mean of their ranks."""
    given, true = _two(answers, truths)
    return pearson(_ranks(given), _ranks(true))


def wilson(right: int, count: int, deviations: float = 1.959963984540054) -> tuple[float, float]:
    """The interval in which a share lies that was measured as right / count (Wilson 1927); 95% unless told."""
    share, square = right / count, deviations**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    reach = deviations / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def plain(answer: str) -> str:
    """An answer as SQuAD compares it: lower case, without punctuation and articles, single spaces."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(NO_PUNCTUATION)).split())


def same_words(answer: str, truth: str) -> float:
    """1 where both are the same once made plain."""
    return float(plain(answer) == plain(truth))


def shared_words(answer: str, truth: str) -> float:
    """F1 of the two bags of words; 0 where none is shared, as SQuAD 1.1 counts."""
    given, true = plain(answer).split(), plain(truth).split()
    shared = (Counter(given) & Counter(true)).total()
    return 2 * shared / (len(given) + len(true)) if shared else 0.0


def squad(answers: Sequence[str], accepted: Sequence[Sequence[str]]) -> dict[str, float]:
    """The means over questions of exact match and F1, each with the accepted answer that suits it best."""

    def mean(figure: Callable[[str, str], float]) -> float:
        best = [max(figure(given, one) for one in true) for given, true in zip(answers, accepted, strict=True)]
        return math.fsum(best) / len(best)

    return {"em": mean(same_words), "f1": mean(shared_words)}


def _two(answers: Numbers, truths: Numbers) -> tuple[np.ndarray, np.ndarray]:
    given, true = (np.asarray(column, np.float64) for column in (answers, truths))
    if given.shape != true.shape or given.ndim != 1 or not len(given):
        raise ValueError(f"two columns of the same length are compared, not {given.shape} and {true.shape}")
    return given, true


def _ranks(numbers: np.ndarray) -> np.ndarray:
    _, place, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]
