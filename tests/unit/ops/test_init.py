"""Initialisation: the spread each rule promises, from the generator it is given."""

import math

import pytest
import torch

from clearhead.ops import init

SHAPE = (600, 400)


def filled(rule, *arguments, seed: int = 0, **options) -> torch.Tensor:
    return rule(torch.empty(SHAPE), *arguments, random=torch.Generator().manual_seed(seed), **options)


@pytest.mark.parametrize(
    ("rule", "arguments", "std", "largest"),
    [
        (init.normal, (0.02,), 0.02, 0.12),
        (init.truncated_normal, (0.02,), 0.8796 * 0.02, 0.04),
        (init.xavier_uniform, (), math.sqrt(2 / 1000), math.sqrt(6 / 1000)),
        (init.lecun_normal, (), math.sqrt(1 / 400), 2 / 0.8796 * math.sqrt(1 / 400)),
    ],
)
def test_a_rule_keeps_its_spread_and_its_bound(rule, arguments, std, largest):
    weight = filled(rule, *arguments)
    assert weight.std().item() == pytest.approx(std, rel=0.01)
    assert abs(weight.mean().item()) < 5 * std / math.sqrt(weight.numel())
    assert 0.75 * largest < weight.abs().max() <= largest


def test_products_stacked_in_one_weight_are_each_filled_as_if_alone():
    bound = math.sqrt(6 / (200 + 400))
    largest = filled(init.xavier_uniform, parts=3).abs().max().item()
    assert 0.999 * bound < largest <= bound


@pytest.mark.parametrize("rule", [init.xavier_uniform, init.lecun_normal])
def test_the_generator_alone_decides(rule):
    first = filled(rule)
    torch.manual_seed(99)
    assert torch.equal(filled(rule), first)
    assert not torch.equal(filled(rule, seed=1), first)


def test_filling_leaves_no_gradient_history():
    weight = torch.nn.Parameter(torch.empty(3, 3))
    init.constant(init.normal(weight, 0.1), 2.0)
    assert weight.grad_fn is None
    assert torch.equal(weight, torch.full((3, 3), 2.0))
