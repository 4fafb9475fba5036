"""The non-linearities against their definitions; GELU's compiled form against its eager one."""

import math

import pytest
import torch

from clearhead.layers import FeedForward
from clearhead.ops import ACTIVATIONS, activate
from clearhead.ops.activations import gelu_tanh
from clearhead.trace import Recorder
from tests.support import equal

X = torch.linspace(-6, 6, 241, dtype=torch.float64)
DEFINITIONS = {
    "gelu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "gelu-tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "quick-gelu": lambda x: x / (1 + math.exp(-1.702 * x)),
    "relu": lambda x: max(x, 0.0),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "tanh": math.tanh,
}


def test_every_activation_has_a_definition_here():
    assert set(ACTIVATIONS) == set(DEFINITIONS)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_an_activation_is_what_its_name_says(name):
    expected = torch.tensor([DEFINITIONS[name](x) for x in X.tolist()], dtype=torch.float64)
    assert equal(ACTIVATIONS[name](X.float()), expected, tolerance=1e-6)


def test_gelu_tanh_compiled_is_the_eager_function_with_its_gradient():
    compiled = torch.compile(gelu_tanh, fullgraph=True, backend="aot_eager")
    results = []
    for function in (gelu_tanh, compiled):
        x = X.float().requires_grad_()
        y = function(x)
        results.append((y, torch.autograd.grad(y.sum(), x)[0]))
    (eager, eager_slope), (ours, slope) = results
    assert not torch.equal(ours, eager)  # another formula did run
    assert equal(ours, eager, tolerance=1e-6)
    assert equal(slope, eager_slope)


def test_gelu_tanh_compiled_keeps_bfloat16():
    compiled = torch.compile(gelu_tanh, fullgraph=True, backend="aot_eager")
    assert compiled(X.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("name", DEFINITIONS)
def test_overwriting_gives_the_same_bits_in_the_same_place_and_only_where_no_gradient_is_kept(name):
    x, expected = X.float(), ACTIVATIONS[name](X.float())
    with torch.no_grad():
        result = activate(name, x, overwrite=True)
    assert torch.equal(result, expected)
    assert result.data_ptr() == x.data_ptr() or name == "quick-gelu"
    y = X.float().requires_grad_() * 1.0
    assert torch.equal(activate(name, y, overwrite=True), expected)
    assert torch.equal(y, X.float())


def test_a_feed_forward_layer_leaves_its_input_and_a_replaced_value_alone():
    layer = FeedForward(4, 8, "gelu")
    x = torch.randn(2, 3, 4)
    before, mine = x.clone(), torch.full((2, 3, 8), 0.5)
    with torch.no_grad(), Recorder(layer, replace={"expanded": mine}):
        layer(x)
    assert torch.equal(x, before)
    assert torch.equal(mine, torch.full((2, 3, 8), 0.5))
