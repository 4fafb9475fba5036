"""Layer norm of rows plus a vector, run by Triton's interpreter, beside torch's own."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.ops.kernels import ASKED_FOR, has_kernel

pytest.importorskip("triton", reason="needs Triton, whose interpreter runs the kernel here")
ON = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ASKED_FOR, "1")
    assert has_kernel("biased_norm")


@pytest.mark.parametrize(("shape", "width"), [((1,), 8), ((2, 5), 24), ((3, 3), 64), ((7,), 300)])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_it_is_torchs_norm_of_the_sum(shape, width, dtype, near):
    stream, beside = (3 * torch.randn(*shape, width) + 2).to(ON, dtype), torch.randn(width, device=ON)
    weight, bias = (torch.randn(width, device=ON).to(dtype) for _ in range(2))
    found = torch.ops.clearhead.biased_norm(stream, beside, weight, bias, 1e-6)
    expected = F.layer_norm(stream.double() + beside, (width,), weight.double(), bias.double(), 1e-6)
    assert found.dtype == dtype and found.shape == stream.shape
    assert (found.double() - expected).abs().max() <= near * expected.abs().max()


def test_what_is_not_contiguous_is_read_right():
    wide = torch.randn(4, 6, 16, device=ON)
    stream, vectors = wide.transpose(0, 1), torch.randn(16, 3, device=ON).unbind(1)
    found = torch.ops.clearhead.biased_norm(stream, *vectors, 1e-5)
    expected = F.layer_norm(stream + vectors[0], (16,), vectors[1], vectors[2], 1e-5)
    assert torch.allclose(found, expected, atol=1e-5)
