"""Attention within short rows, run by Triton's interpreter, beside torch's own and autograd."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.layers import GridRotary, SelfAttention
from clearhead.layers.attention import Heads
from clearhead.ops import positions
from clearhead.ops.kernels import ASKED_FOR, has_kernel

pytest.importorskip("triton", reason="needs Triton, whose interpreter runs the kernel here")
ON = "cuda" if torch.cuda.is_available() else "cpu"
HEADS, WIDTH = 2, 64  # a GPU's product is of 16 features or more, and a head is read in halves


@pytest.fixture(autouse=True)
def kernel() -> None:
    assert has_kernel("short_attention")


def plain(product: Tensor, scale: float, table: Tensor | None, places: Tensor | None) -> Tensor:
    query, key, value = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in product.chunk(3, -1))
    if table is not None:
        turns = table[: product.shape[1]] if places is None else table[places][:, None]
        query, key = positions.turned(query, turns), positions.turned(key, turns)
    return F.scaled_dot_product_attention(query, key, value, scale=scale).transpose(1, 2).flatten(2)


def apart(found: Tensor, expected: Tensor) -> Tensor:
    """The largest difference, as a share of the largest value: a GPU's products of fp32 have ten bits here (TF32)."""
    return (found - expected).abs().max() / expected.abs().max()


@pytest.mark.parametrize("turned", ["not", "in order", "anywhere"])
@pytest.mark.parametrize("length", [5, 48, 64, 100])
def test_answer_and_gradient_are_those_of_torch(length, turned):
    product = torch.randn(3, length, 3 * WIDTH, device=ON, requires_grad=True)
    angles = positions.grid_angles(torch.arange(128, device=ON), 8, WIDTH // HEADS)
    table = None if turned == "not" else positions.turns(angles)
    places = torch.randint(64, (3, length), device=ON) if turned == "anywhere" else None
    found = torch.ops.clearhead.short_attention(product, HEADS, 0.3, table, places)
    expected = plain(product, 0.3, table, places)
    assert found.shape == expected.shape and apart(found, expected) <= (4e-3 if ON == "cuda" else 1e-5)
    upstream = torch.randn_like(found)
    ours, theirs = (torch.autograd.grad(one, product, upstream)[0] for one in (found, expected))
    assert apart(ours, theirs) <= (1e-2 if ON == "cuda" else 1e-5)


@pytest.mark.parametrize("kept", [9, None])
def test_a_layer_that_compiles_with_it_has_the_answers_and_gradients_of_one_without(monkeypatch, kept):
    layer = SelfAttention(64, Heads.of(64, 2), rotary=GridRotary(4, 4, 32, 100.0)).to(ON)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    x = torch.randn(3, kept or 16, 64, device=ON)
    at = None if kept is None else torch.rand(3, 16, device=ON).argsort(1)[:, :kept]
    expected = layer(x, positions=at)
    monkeypatch.setattr(SelfAttention, "_is_short", lambda self, x: has_kernel("short_attention"))
    found = torch.compile(layer, fullgraph=True, backend="aot_eager")(x, positions=at)
    near = 5e-2 if ON == "cuda" else 1e-4
    assert torch.allclose(found, expected, atol=near)
    ours, theirs = (torch.autograd.grad(one.square().sum(), list(layer.parameters())) for one in (found, expected))
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine - other).abs().max() <= near * other.abs().max()


@pytest.mark.parametrize(
    ("tokens", "asked", "taken"),
    [(64, "0", True), (65, "0", False), (65, "1", True), (128, "1", True), (129, "1", False)],
)
def test_rows_of_more_than_64_tokens_have_to_be_asked_for_until_a_card_has_seen_them(monkeypatch, tokens, asked, taken):
    monkeypatch.setenv(ASKED_FOR, asked)
    layer = SelfAttention(64, Heads.of(64, 2))
    x: Any = SimpleNamespace(is_cuda=True, device=torch.device("cuda"), shape=(3, tokens, 64), dtype=torch.bfloat16)
    assert layer._is_short(x) == taken
