"""A recorder may put something else in a value's place: the pass goes on with it, and the trace shows it."""

import pytest
import torch
from torch import nn

from clearhead.errors import ClearheadError
from clearhead.trace import Recorder, tap


class Step(nn.Module):
    def forward(self, x):
        return tap("sum", tap("seen", x) + 1)


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(Step(), Step())


X = torch.tensor([1.0, 2.0])


def test_a_tensor_takes_the_values_place_from_there_on(model):
    with Recorder(model, replace={"0.sum": torch.tensor([10.0, 20.0])}) as trace:
        output = model(X)
    assert output.tolist() == [11.0, 21.0]
    assert trace["0.sum"].tolist() == trace["1.seen"].tolist() == [10.0, 20.0]


def test_a_function_gets_the_value_and_gives_what_goes_on(model):
    with Recorder(model, sites=[], replace={"*.sum": lambda value: 2 * value}):
        assert model(X).tolist() == [10.0, 14.0]
    assert model(X).tolist() == [3.0, 4.0]


def test_a_replacement_is_brought_to_the_values_type(model):
    with Recorder(model, sites=[], replace={"0.sum": torch.tensor([10.0, 20.0], dtype=torch.float64)}):
        assert model(X).dtype == torch.float32


def test_one_firing_can_be_replaced_by_its_number():
    step = Step()
    with Recorder(step, sites=[], replace={"sum#2": lambda value: 0 * value}):
        assert step(step(X)).tolist() == [0.0, 0.0]
        assert step(X).tolist() == [2.0, 3.0]


def test_a_wrong_shape_is_refused_in_one_line_that_names_both(model):
    message = r"^a replacement for '0.sum' must have shape \(2,\), not \(3,\)$"
    with pytest.raises(ClearheadError, match=message), Recorder(model, replace={"0.sum": torch.zeros(3)}):
        model(X)


def test_a_replacement_that_matches_no_site_is_an_error(model):
    with (
        pytest.raises(ClearheadError, match="^no site matches '0.summ'; did you mean '0.sum'"),
        Recorder(model, replace={"0.summ": torch.zeros(2)}),
    ):
        model(X)


def test_gradients_flow_through_a_function_that_replaces(model):
    x = X.clone().requires_grad_()
    with Recorder(model, sites=[], replace={"0.sum": lambda value: 3 * value}):
        model(x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
