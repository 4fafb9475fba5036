"""The feed-forward layer on a GPU: product and GELU as one kernel, where nobody looks between them."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.layers import FeedForward
from clearhead.layers.feed_forward import MANY
from clearhead.trace import Recorder


def layer(activation: str = "gelu-tanh") -> FeedForward:
    torch.manual_seed(0)
    return FeedForward(64, 256, activation).to("cuda", torch.bfloat16).eval()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("compiled", [False, True])
def test_one_kernel_gives_what_product_and_gelu_give(compiled):
    made = layer()
    x = torch.randn(3, MANY, 64, device="cuda", dtype=torch.bfloat16)
    with torch.inference_mode():
        assert made._in_one_kernel(x) and not made._in_one_kernel(x[:, :2])
        assert not layer("gelu")._in_one_kernel(x)
        found = (torch.compile(made) if compiled else made)(x).float()
        up, down = made.up.float(), made.down.float()
        expected = F.linear(F.gelu(F.linear(x.float(), up.weight, up.bias), approximate="tanh"), down.weight, down.bias)
    assert (found - expected).abs().max() < 0.02 * expected.abs().max()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_with_gradients_or_a_recorder_the_steps_stay_apart():
    made, x = layer(), torch.randn(3, MANY, 64, device="cuda", dtype=torch.bfloat16)
    assert not made._in_one_kernel(x)
    with torch.inference_mode(), Recorder(made) as trace:
        made(x)
    assert trace["hidden"].shape == (3, MANY, 256)
