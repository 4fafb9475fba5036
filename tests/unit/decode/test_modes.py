"""Teacher forcing beside testing: what the whole pass says at every place, and what the model writes by itself."""

import math

import pytest

from clearhead.decode import Guess, Limits, Modes, collect, compare_modes, generate
from clearhead.errors import ClearheadError
from tests.unit.decode.tiny import FAMILIES, build, whole

GIVEN, TARGET = [1, 2, 3, 4, 5], [6, 7, 8, 1, 0]


@pytest.mark.parametrize("name", FAMILIES)
def test_forced_guesses_are_the_best_tokens_of_the_whole_pass_behind_the_true_words(name: str):
    model = build(name)
    modes = compare_modes(model, GIVEN, TARGET)
    assert modes.target == tuple(TARGET)
    assert len(modes.forced) == len(TARGET)
    for place, guess in enumerate(modes.forced):
        chances = whole(model, GIVEN, TARGET[:place]).softmax(-1)
        assert guess.token == int(chances.argmax())
        assert math.isclose(guess.probability, chances.max().item(), rel_tol=1e-4)
        assert guess.true_probability is not None
        assert math.isclose(guess.true_probability, chances[TARGET[place]].item(), rel_tol=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_free_run_is_greedy_decoding(name: str):
    model = build(name)
    modes = compare_modes(model, GIVEN, TARGET, end=frozenset({4}))
    (row,) = collect(1, generate(model, [GIVEN], Limits(length=len(TARGET), end=frozenset({4}))))
    assert [guess.token for guess in modes.free] == row.tokens
    assert all(
        math.isclose(g.probability, math.exp(p), rel_tol=1e-5) for g, p in zip(modes.free, row.logprobs, strict=True)
    )
    assert all(guess.true_probability is None for guess in modes.free)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_that_is_shown_its_own_words_is_right_everywhere(name: str):
    model = build(name)
    (row,) = collect(1, generate(model, [GIVEN], Limits(length=6)))
    modes = compare_modes(model, GIVEN, row.tokens)
    assert [guess.token for guess in modes.forced] == [guess.token for guess in modes.free] == row.tokens
    assert modes.first_difference is None
    wrong = [*row.tokens[:3], (row.tokens[3] + 1) % 11, *row.tokens[4:]]
    assert compare_modes(model, GIVEN, wrong).first_difference == 3


@pytest.mark.parametrize(
    ("free", "place"), [([6, 7, 8], None), ([6, 7, 9], 2), ([1, 7, 8], 0), ([6, 1], 1), ([6, 9, 9], 1)]
)
def test_the_first_difference_is_where_the_free_run_leaves_the_target(free: list[int], place: int | None):
    assert Modes((6, 7, 8), (), tuple(Guess(token, 0.5) for token in free)).first_difference == place


def test_one_token_is_enough_of_a_target():
    modes = compare_modes(build("gpt, learned"), [1], [2])
    assert len(modes.forced) == len(modes.free) == 1


@pytest.mark.parametrize("name", ["gpt, learned", "t5"])
def test_a_missing_side_is_refused_in_one_line(name: str):
    with pytest.raises(ClearheadError, match="^there is no target to compare with$"):
        compare_modes(build(name), GIVEN, [])
    with pytest.raises(ClearheadError, match="^there is no prompt or source to start from$"):
        compare_modes(build(name), [], TARGET)


def test_a_pair_beyond_the_context_is_refused_in_one_line():
    with pytest.raises(ClearheadError, match="^9 tokens don't fit the model's context of 8: shorten the text$"):
        compare_modes(build("gpt, learned", context=8), GIVEN, TARGET)
