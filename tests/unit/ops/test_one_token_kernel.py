"""Attention of one new token a row, run by Triton's interpreter: what torch gives, and a cache with the token in."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.ops.kernels import has_kernel

pytest.importorskip("triton", reason="needs Triton, whose interpreter runs the kernel here")
ON = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def kernel() -> None:
    assert has_kernel("one_token_kernel")


def given(rows: int, heads: int, groups: int, widths: tuple[int, int], slots: int) -> tuple[Tensor, ...]:
    """New queries, keys and values as views of one product, and stores of the tokens before them."""
    sizes = [heads * widths[0], groups * widths[0], groups * widths[1]]
    product = torch.randn(rows, 1, sum(sizes))
    counts = (heads, groups, groups)
    views = [
        part.unflatten(-1, (count, -1)).transpose(1, 2)
        for part, count in zip(product.to(ON).split(sizes, -1), counts, strict=True)
    ]
    return *views, *(torch.randn(rows, slots, groups, width).to(ON) for width in widths)


def expected_of(query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, length: int) -> Tensor:
    """For one row, by torch's own attention over its tokens and the new one."""
    seen = [
        torch.cat([store[None, :length].transpose(1, 2), new[None]], 2) for store, new in ((keys, key), (values, value))
    ]
    return F.scaled_dot_product_attention(query[None], *seen, scale=0.3, enable_gqa=True)[0]


@pytest.mark.parametrize(("heads", "groups", "widths"), [(3, 3, (16, 16)), (4, 2, (24, 8))])
def test_each_row_looks_back_over_its_own_tokens_and_itself(heads, groups, widths):
    lengths = torch.tensor([0, 1, 63, 64, 95]).to(ON)
    query, key, value, keys, values = given(len(lengths), heads, groups, widths, 100)
    before = keys.clone(), values.clone()
    found = torch.ops.clearhead.one_token_attention(query, key, value, keys, values, lengths, 0.3)
    for row, length in enumerate(lengths.tolist()):
        stores = before[0][row], before[1][row]
        expected = expected_of(query[row], key[row], value[row], *stores, length)
        assert torch.allclose(found[row], expected, atol=1e-5)
        for store, old, new in zip((keys, values), before, (key, value), strict=True):
            assert torch.equal(store[row, length], new[row, :, 0])
            others = torch.arange(100, device=ON) != length
            assert torch.equal(store[row, others], old[row, others])


def test_what_lies_behind_a_row_is_never_looked_at():
    lengths = torch.tensor([5, 70]).to(ON)
    query, key, value, keys, values = given(2, 2, 2, (8, 8), 96)
    for row, length in enumerate(lengths.tolist()):
        keys[row, length:], values[row, length:] = torch.nan, torch.nan
    found = torch.ops.clearhead.one_token_attention(query, key, value, keys, values, lengths, 1.0)
    assert found.isfinite().all()
