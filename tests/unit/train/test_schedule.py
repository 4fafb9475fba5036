"""Factors of the rate against transformers' schedules."""

import pytest
import torch

from clearhead.errors import ClearheadError
from clearhead.train.schedule import SCHEDULES, Schedule
from tests.support import peer


def theirs(make, count: int, *arguments, **options) -> list[float]:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = make(optimiser, *arguments, **options)
    factors = []
    for _ in range(count):
        factors.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
    return factors


def ours(count: int, **settings) -> list[float]:
    schedule = Schedule(**settings)
    return [schedule.factor(step) for step in range(count)]


@pytest.mark.parametrize("warmup", [0, 1, 7, 40])
def test_schedules_are_those_of_transformers(warmup):
    optimization = peer("transformers.optimization")
    pairs = {
        "cosine": theirs(optimization.get_cosine_schedule_with_warmup, 41, warmup, 40),
        "linear": theirs(optimization.get_linear_schedule_with_warmup, 41, warmup, 40),
        "inverse-sqrt": theirs(optimization.get_inverse_sqrt_schedule, 41, warmup),
        "constant": theirs(optimization.get_constant_schedule_with_warmup, 41, warmup),
    }
    assert set(pairs) == set(SCHEDULES)
    for name, expected in pairs.items():
        assert ours(41, steps=40, name=name, warmup=warmup) == pytest.approx(expected, abs=1e-12), name


def test_a_cosine_with_a_floor_is_that_of_transformers():
    optimization = peer("transformers.optimization")
    make = optimization.get_cosine_with_min_lr_schedule_with_warmup
    expected = theirs(make, 41, 5, 40, min_lr_rate=0.1)
    assert ours(41, steps=40, warmup=5, floor=0.1) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["cosine", "linear", "inverse-sqrt"])
def test_no_schedule_falls_below_its_floor_and_none_rises_again_behind_the_end(name):
    factors = ours(400, steps=40, name=name, warmup=4, floor=0.25)
    assert min(factors[4:]) == pytest.approx(0.25)
    assert factors[4:] == sorted(factors[4:], reverse=True)


def test_a_factor_is_a_pure_function_of_the_step():
    schedule = Schedule(steps=100, warmup=10)
    forwards = [schedule.factor(step) for step in range(100)]
    assert [schedule.factor(step) for step in reversed(range(100))] == forwards[::-1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "cosin"},
        {"steps": 0},
        {"steps": 1.5},
        {"warmup": -1},
        {"warmup": 101},
        {"floor": 1.5},
        {"floor": float("nan")},
        {"name": "constant", "floor": 0.1},
    ],
)
def test_impossible_settings_are_refused_in_one_line(wrong):
    with pytest.raises(ClearheadError) as error:
        Schedule(**{"steps": 100} | wrong)
    assert list(wrong)[-1] in str(error.value) and "\n" not in str(error.value)
