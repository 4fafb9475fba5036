"""Draws follow the chances, belong to their row alone, and can be made again."""

import math

import pytest
import torch
from torch import Tensor

from clearhead.decode import Limits, Sampling, collect, generate
from clearhead.decode.sampling import draw, generators
from clearhead.errors import ClearheadError
from clearhead.models.base import Model
from tests.unit.decode.tiny import build, prompts, whole

DRAWS = 20_000
FILTERS = {
    "plain": Sampling(temperature=1.0),
    "cold": Sampling(temperature=0.6),
    "hot": Sampling(temperature=2.5),
    "top-k": Sampling(temperature=1.0, top_k=5),
    "top-p": Sampling(temperature=1.0, top_p=0.7),
    "min-p": Sampling(temperature=1.0, min_p=0.1),
    "repetition": Sampling(temperature=1.0, repetition_penalty=1.8),
    "all": Sampling(temperature=1.3, top_k=9, top_p=0.9, min_p=0.02, repetition_penalty=1.2),
}


def largest_likely(freedom: int, deviations: float = 4.0) -> float:
    """The chi-square that is passed once in 30,000 times (Wilson and Hilferty 1931)."""
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + deviations * math.sqrt(spread)) ** 3


def assert_follow(tokens: list[int], chances: Tensor) -> None:
    counts = torch.bincount(torch.tensor(tokens), minlength=len(chances)).double()
    expected = chances.double() * len(tokens)
    possible = expected > 0
    assert counts[~possible].sum() == 0
    assert expected[possible].min() >= 5  # or the test would say nothing
    chi_square = ((counts - expected)[possible] ** 2 / expected[possible]).sum().item()
    assert chi_square <= largest_likely(int(possible.sum()) - 1)


@pytest.mark.parametrize("sampling", FILTERS.values(), ids=FILTERS)
def test_frequencies_match_the_softmax_of_the_filtered_scores(sampling: Sampling):
    logits = 0.8 * torch.randn(1, 20)
    scores = sampling.scores(logits, [[3, 3, 7, 11]])
    tokens = sampling.choose(scores.expand(DRAWS, -1), generators([4]) * DRAWS)
    assert_follow(tokens, scores[0].softmax(-1))
    assert len(set(tokens)) == int((scores > -math.inf).sum())


def test_first_draws_of_many_seeds_follow_the_chances_too():
    scores = torch.randn(1, 20)
    assert_follow(draw(scores.expand(DRAWS, -1), generators(range(DRAWS))), scores[0].softmax(-1))


def test_the_statistic_sees_a_small_error():
    """So that the tests above can fail."""
    scores = torch.randn(1, 20)
    tokens = draw(scores.expand(DRAWS, -1), generators([4]) * DRAWS)
    with pytest.raises(AssertionError):
        assert_follow(tokens, (scores[0] / 1.1).softmax(-1))


def test_a_token_without_a_chance_is_never_drawn_at_either_end():
    scores = torch.full((1, 9), -math.inf)
    scores[0, [2, 6]] = torch.tensor([1.0, 1.5])
    assert set(draw(scores.expand(2000, -1), generators([1]) * 2000)) == {2, 6}


def test_a_row_draws_one_number_whatever_its_neighbours_do():
    scores, random = torch.randn(5, 30), torch.Generator()
    expected = []
    for seed, row in enumerate(scores):
        number = torch.rand((), generator=random.manual_seed(seed), dtype=torch.float64)
        expected.append(int((row.double().softmax(-1).cumsum(-1) <= number).sum()))
    assert draw(scores, generators(range(5))) == expected
    assert draw(scores[[3, 0]], generators([3, 0])) == [expected[3], expected[0]]


@pytest.mark.parametrize("temperature", [1e-3, 1e-20, 1e-300, 5e-324])
def test_the_colder_it_gets_the_more_it_is_the_best_token(temperature: float):
    scores = Sampling(temperature=temperature).scores(torch.tensor([[1.0, 3.0, 2.0, -9.0]]), [[]])
    assert set(draw(scores.expand(100, -1), generators(range(100)))) == {1}


def test_temperature_zero_takes_the_best_token_whatever_the_filters():
    logits = torch.randn(6, 20)
    sampling = Sampling(top_k=3, top_p=0.5, min_p=0.3)
    assert sampling.choose(sampling.scores(logits, [[]] * 6), []) == logits.argmax(-1).tolist()


def test_half_precision_logits_are_filtered_and_drawn_in_full_precision():
    logits = torch.randn(1, 20, dtype=torch.bfloat16)
    sampling = Sampling(temperature=0.7)
    assert torch.equal(sampling.scores(logits, [[]]), sampling.scores(logits.float(), [[]]))


def run(model: Model, given: list[list[int]], seeds: list[int], sampling: Sampling) -> list[list[int]]:
    steps = generate(model, given, Limits(length=10, end=frozenset({1, 4, 8})), sampling, seeds=seeds)
    return [row.tokens for row in collect(len(given), steps)]


def margin(model: Model, given: list[int], tokens: list[int], seed: int, sampling: Sampling) -> float:
    """How near one of the row's draws comes to a boundary between two tokens, by the whole pass, alone."""
    (random,) = generators([seed])
    nearest = 1.0
    for step in range(len(tokens)):
        scores = sampling.scores(whole(model, given, tokens[:step])[None], [given + tokens[:step]])
        number = torch.rand((), generator=random, dtype=torch.float64)
        nearest = min(nearest, (scores[0].double().softmax(-1).cumsum(-1) - number).abs().min().item())
    return nearest


@pytest.mark.parametrize("name", ["gpt, learned", "gpt, rotary", "transformer, post", "t5"])
@pytest.mark.parametrize("sampling", [FILTERS["plain"], FILTERS["top-k"]], ids=["plain", "top-k"])
def test_the_same_seed_draws_the_same_tokens_in_any_batch(name: str, sampling: Sampling):
    model, given, seeds = build(name), prompts(3, 24), list(range(100, 124))
    together = run(model, given, seeds, sampling)
    assert together == run(model, given, seeds, sampling)
    clear = [margin(model, *row, sampling) > 1e-5 for row in zip(given, together, seeds, strict=True)]
    assert sum(clear) >= 22
    order = torch.randperm(24).tolist()[:17]
    shuffled = run(model, [given[at] for at in order], [seeds[at] for at in order], sampling)
    alone = [run(model, [given[at]], [seeds[at]], sampling)[0] for at in order]
    for at, one, other in zip(order, shuffled, alone, strict=True):
        assert not clear[at] or one == other == together[at]
    assert len({tuple(row) for row in together}) > 12
    assert len({len(row) for row in together}) > 1


def test_other_seeds_draw_other_tokens():
    model, given = build("gpt, learned"), [[1, 2, 3]] * 8
    drawn = run(model, given, list(range(8)), FILTERS["plain"])
    assert len({tuple(row) for row in drawn}) >= 6
    steps = generate(model, given, Limits(length=10, end=frozenset({1, 4, 8})), FILTERS["plain"])
    assert drawn == [row.tokens for row in collect(8, steps)]  # seeds 0, 1, 2 ... unless given


BAD = [
    ({"temperature": math.nan}, "temperature must be at least 0, not nan"),
    ({"temperature": -0.1}, "temperature must be at least 0, not -0.1"),
    ({"temperature": math.inf}, "temperature must be at least 0, not inf"),
    ({"temperature": "warm"}, "temperature must be at least 0, not 'warm'"),
    ({"temperature": True}, "temperature must be at least 0, not True"),
    ({"top_k": 0}, "top_k must be a whole number of at least 1, not 0"),
    ({"top_k": -3}, "top_k must be a whole number of at least 1, not -3"),
    ({"top_k": 2.5}, "top_k must be a whole number of at least 1, not 2.5"),
    ({"top_p": 0}, "top_p must be above 0 and at most 1, not 0"),
    ({"top_p": 1.01}, "top_p must be above 0 and at most 1, not 1.01"),
    ({"top_p": math.nan}, "top_p must be above 0 and at most 1, not nan"),
    ({"min_p": -0.2}, "min_p must be above 0 and at most 1, not -0.2"),
    ({"min_p": 2}, "min_p must be above 0 and at most 1, not 2"),
    ({"repetition_penalty": 0}, "repetition_penalty must be above 0, not 0"),
    ({"repetition_penalty": math.inf}, "repetition_penalty must be above 0, not inf"),
    ({"repetition_penalty": None}, "repetition_penalty must be above 0, not None"),
]


@pytest.mark.parametrize(("fields", "message"), BAD, ids=[str(fields) for fields, _ in BAD])
def test_a_bad_value_is_refused_in_one_line(fields: dict, message: str):
    with pytest.raises(ClearheadError) as refusal:
        Sampling(**fields)
    assert str(refusal.value) == message


def test_rows_without_a_seed_of_their_own_are_refused_in_one_line():
    with pytest.raises(ClearheadError, match="^2 rows need as many seeds, not 1$"):
        list(generate(build("gpt, learned"), [[1], [2]], seeds=[3]))
