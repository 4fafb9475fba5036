"""Products in 8 bits against those in float64, as far off as rounding to four bits explains."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.ops.float8 import E4M3, LARGEST, can_multiply, float8_linear, rounded

ON = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.skipif(not can_multiply(torch.device(ON)), reason="this GPU has no products in 8 bits")


def test_the_largest_number_becomes_the_largest_there_is():
    x = torch.randn(50, 40, device=ON) * 7
    eight, scale = rounded(x)
    assert eight.dtype == E4M3 and eight.float().abs().max() == LARGEST
    assert torch.equal(scale, x.abs().max() / LARGEST)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rounding_is_within_half_of_the_last_of_four_bits(dtype, size):
    x = (size * torch.randn(64, 64, device=ON) * torch.logspace(-6, 0, 64, device=ON)).to(dtype)
    eight, scale = rounded(x)
    back, true = eight.double() * scale.double(), x.double()
    normal = true.abs() > scale * 2.0**-6  # smaller ones have fewer bits
    assert ((back - true).abs() <= true.abs() * (2.0**-4 + 2.0**-7))[normal].all()
    assert 0 < (back - true).abs()[~normal].max() <= scale * 2.0**-9


def test_zeros_stay_zeros():
    eight, scale = rounded(torch.zeros(4, 16, device=ON))
    assert eight.float().abs().max() == 0 and scale > 0


@pytest.mark.parametrize("biased", [False, True])
def test_a_product_is_as_near_as_rounded_factors_allow(biased):
    """Errors are independent: a sum of 512 terms, each a few percent off, is off by that share of its spread."""
    torch.manual_seed(0)
    x, weight = (torch.randn(rows, 512, device=ON, dtype=torch.bfloat16) for rows in (96, 160))
    bias = torch.randn(160, device=ON, dtype=torch.bfloat16) * 30 if biased else None
    found = float8_linear(x, weight, bias)
    true = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    assert found.dtype == torch.bfloat16 and found.shape == (96, 160)
    off = (found.double() - true).std() / 512**0.5
    assert 0.01 < off < 0.05
