"""GELU's own way back: the kernel, run by Triton's interpreter, and what autograd makes of it, beside torch's own."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.layers import FeedForward
from clearhead.ops.biased_gelu import GELUS, biased_gelu
from clearhead.ops.kernels import has_kernel

pytest.importorskip("triton", reason="needs Triton, whose interpreter runs the kernel here")


@pytest.fixture(autouse=True)
def kernel() -> None:
    assert has_kernel("gelu_kernel")


def given(rows: tuple[int, ...], columns: int, dtype: torch.dtype, device: str = "cpu") -> tuple[Tensor, ...]:
    random = torch.Generator().manual_seed(0)
    product, upstream = (2 * torch.randn(*rows, columns, generator=random) for _ in range(2))
    bias = torch.randn(columns, generator=random)
    return tuple(tensor.to(device) for tensor in (product.to(dtype), bias, upstream.to(dtype)))


def expected_of(product: Tensor, bias: Tensor, upstream: Tensor, name: str) -> tuple[Tensor, ...]:
    """In float64, by torch."""
    inputs = [product.double().requires_grad_(), bias.double().requires_grad_()]
    found = F.gelu(inputs[0] + inputs[1], approximate="tanh" if name == "gelu-tanh" else "none")
    return found, *torch.autograd.grad(found, inputs, upstream.double())


def near(found: Tensor, expected: Tensor, share: float) -> bool:
    return bool((found.double() - expected).abs().max() <= share * expected.abs().max())


@pytest.mark.parametrize("name", GELUS)
@pytest.mark.parametrize(("rows", "columns"), [((5,), 8), ((2, 150), 300)])
@pytest.mark.parametrize(("dtype", "share"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
def test_the_gradients_are_those_of_torch(name, rows, columns, dtype, share):
    product, bias, upstream = given(rows, columns, dtype)
    expected = expected_of(product, bias, upstream, name)
    product.requires_grad_()
    bias.requires_grad_()
    found = biased_gelu(product, bias, name)
    slopes = torch.autograd.grad(found, [product, bias], upstream)
    assert found.dtype == slopes[0].dtype == dtype and slopes[1].dtype == torch.float32
    for ours, theirs in zip((found, *slopes), expected, strict=True):
        assert near(ours, theirs, share)


@pytest.mark.parametrize("name", GELUS)
def test_a_layer_compiles_with_it(monkeypatch, name):
    layer, x = FeedForward(16, 32, name), torch.randn(2, 5, 16)
    plain = torch.autograd.grad(layer(x).square().sum(), list(layer.parameters()))
    monkeypatch.setattr(FeedForward, "_goes_back_in_one_kernel", lambda self, x: has_kernel("gelu_kernel"))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for ours, theirs in zip(
        torch.autograd.grad(compiled(x).square().sum(), list(layer.parameters())), plain, strict=True
    ):
        assert near(ours, theirs.double(), 1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", GELUS)
def test_a_compiled_layer_has_the_gradients_of_one_that_is_not(name):
    torch.manual_seed(0)
    layer = FeedForward(64, 256, name).cuda()
    x = torch.randn(3, 130, 64, device="cuda")
    found = []
    for made in (layer, torch.compile(layer, fullgraph=True)):
        with torch.autocast("cuda", torch.bfloat16):
            loss = made(x).float().square().sum()
        found.append(torch.autograd.grad(loss, list(layer.parameters())))
    for plain, ours in zip(*found, strict=True):
        assert near(ours, plain.double(), 2e-2)
