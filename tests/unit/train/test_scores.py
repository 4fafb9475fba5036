"""Figures against scikit-learn's and scipy's on random columns; SQuAD's against cases worked out by hand."""

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn import metrics

from clearhead.train import scores

COLUMNS = [(seed, classes) for seed in range(4) for classes in (2, 3, 7)]


def columns(seed: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    truths = random.integers(classes, size=83)
    return np.where(random.random(83) < 0.4, truths, random.integers(classes, size=83)), truths


@pytest.mark.parametrize(("seed", "classes"), COLUMNS)
def test_accuracy_and_matthews_are_scikit_learns(seed, classes):
    given, truths = columns(seed, classes)
    assert scores.accuracy(torch.tensor(given), torch.tensor(truths)) == metrics.accuracy_score(truths, given)
    assert scores.matthews(given, truths) == pytest.approx(metrics.matthews_corrcoef(truths, given), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("positive", [0, 1])
def test_f1_is_scikit_learns_for_either_class(seed, positive):
    given, truths = columns(seed, 2)
    expected = metrics.f1_score(truths, given, pos_label=positive)
    assert scores.f1(given, truths, positive) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("levels", [5, 1000])
def test_correlations_are_scipys_with_ties_and_without(seed, levels):
    random = np.random.default_rng(seed)
    truths = random.integers(levels, size=60) / 7
    given = truths + random.normal(size=60).round(1) * 3
    assert scores.pearson(given, truths) == pytest.approx(stats.pearsonr(given, truths)[0], abs=1e-12)  # pyright: ignore
    assert scores.spearman(given, truths) == pytest.approx(stats.spearmanr(given, truths)[0], abs=1e-12)  # pyright: ignore


def test_an_undefined_figure_is_nought():
    same, truths = np.zeros(5), np.array([0, 1, 0, 1, 1])
    assert scores.f1(same, same) == scores.matthews(same, truths) == 0
    assert scores.pearson(same, truths) == scores.spearman(same, truths) == 0
    assert metrics.matthews_corrcoef(truths, same) == metrics.f1_score(same, same, zero_division=0) == 0


def test_the_share_among_the_best_is_scikit_learns():
    random = torch.Generator().manual_seed(0)
    logits, truths = torch.randn(200, 12, generator=random), torch.randint(12, (200,), generator=random)
    expected = metrics.top_k_accuracy_score(truths.numpy(), logits.numpy(), k=5, labels=range(12))
    assert scores.among_best(logits, truths, 5) == pytest.approx(expected)
    assert scores.among_best(logits, truths, 99) == 1


@pytest.mark.parametrize(("right", "count"), [(0, 9), (9, 9), (355, 360), (1, 3), (5000, 10000)])
def test_the_interval_is_scipys_wilson(right, count):
    expected = stats.binomtest(right, count).proportion_ci(0.95, method="wilson")
    assert scores.wilson(right, count) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="same length"):
        scores.accuracy([1, 2], [1])
    with pytest.raises(ValueError, match="same length"):
        scores.pearson([], [])


@pytest.mark.parametrize(
    ("answer", "plain"),
    [
        ("The Panthers!", "panthers"),
        ("  a  cat,\tan  apple ", "cat apple"),
        ("Theatre of an era", "theatre of era"),  # an article is a word, not its letters
        ("U.S.A.", "usa"),
        ("24-10", "2410"),
        ("the", ""),
        ("½ “quoted”", "½ “quoted”"),  # ASCII's punctuation alone
    ],
)
def test_answers_are_made_plain_as_squad_does(answer, plain):
    assert scores.plain(answer) == plain


@pytest.mark.parametrize(
    ("answer", "truth", "same", "shared"),
    [
        ("the Denver Broncos", "Denver Broncos", 1, 1),
        ("Denver", "Denver Broncos", 0, 2 / 3),
        ("Broncos of Denver", "Denver Broncos", 0, 4 / 5),  # order does not count
        ("to be to be", "to be", 0, 2 * 2 / 6),  # each word as often as both have it
        ("Carolina", "Denver", 0, 0),
        ("a", "the", 1, 0),  # nothing is left of either: SQuAD 1.1 finds no shared word
    ],
)
def test_an_answer_is_compared_with_one_truth(answer, truth, same, shared):
    assert scores.same_words(answer, truth) == same
    assert scores.shared_words(answer, truth) == pytest.approx(shared)


def test_squad_takes_the_best_of_the_accepted_answers_and_the_mean_over_questions():
    answers = ["Denver", "24-10", "nobody"]
    accepted = [["Denver Broncos", "denver"], ["twenty", "24 10 points"], ["Cam Newton"]]
    assert scores.squad(answers, accepted) == {"em": pytest.approx(1 / 3), "f1": pytest.approx(1 / 3)}
    accepted[1] = ["by 2410 points"]
    assert scores.squad(answers, accepted) == {"em": pytest.approx(1 / 3), "f1": pytest.approx((1 + 1 / 2 + 0) / 3)}
