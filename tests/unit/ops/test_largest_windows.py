"""CCT's tokenizer as one kernel, by Triton's interpreter, beside torch's convolution, ReLU, pooling and autograd."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.layers import ConvolutionInput, LearnedPositions
from clearhead.ops import kernels
from clearhead.ops.kernels import has_kernel

pytest.importorskip("triton", reason="needs Triton, whose interpreter runs the kernel here")
ON = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernels.ASKED_FOR, "1")
    assert has_kernel("largest_windows")


def plain(images: Tensor, weight: Tensor, at: Tensor | None) -> Tensor:
    kernel = weight.view(len(weight), -1, 3, 3).to(images.dtype)
    rows = F.max_pool2d(F.conv2d(images, kernel, padding=1).relu(), 3, 2, 1).flatten(2).transpose(1, 2)
    return rows if at is None else rows.gather(1, at.unsqueeze(2).expand(-1, -1, rows.shape[2]))


SHAPES = {  # pictures, channels, height, width; features; rows that are made
    "all rows": (3, 3, 8, 12, 40, None),
    "some rows": (5, 3, 8, 12, 40, 7),
    "grey, and more features than one program has": (2, 1, 4, 6, 150, None),
    "several blocks of rows, and not a whole number of them": (3, 3, 16, 16, 8, 50),
    "many channels": (2, 7, 6, 4, 16, 3),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_rows_and_the_gradient_of_the_weights_are_those_of_torch(shape):
    batch, channels, high, wide, features, kept = shape
    images, patches = torch.randn(batch, channels, high, wide, device=ON), high * wide // 4
    weight = torch.randn(features, channels * 9, device=ON, requires_grad=True)
    at = None if kept is None else torch.rand(batch, patches, device=ON).argsort(1)[:, :kept]
    found, which = torch.ops.clearhead.largest_windows(images, weight, at)
    expected = plain(images, weight, at)
    assert torch.allclose(found, expected, atol=2e-4) and torch.equal(which == 9, found == 0)
    upstream = torch.randn_like(expected)
    ours, theirs = (torch.autograd.grad(one, weight, upstream)[0] for one in (found, expected))
    assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()


@pytest.mark.gpu
@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a CUDA device: Triton's interpreter has no bf16 products"
)
def test_pictures_in_bf16_give_rows_in_bf16_and_weights_keep_their_type():
    images, weight = torch.randn(4, 3, 8, 8, device=ON), torch.randn(32, 27, device=ON, requires_grad=True)
    found, _ = torch.ops.clearhead.largest_windows(images.bfloat16(), weight)
    expected = plain(images, weight, None)
    assert found.dtype == torch.bfloat16 and (found - expected).abs().max() <= 2e-2 * expected.abs().max()
    upstream = torch.randn_like(expected)
    [ours] = torch.autograd.grad(found, weight, upstream.bfloat16())
    [theirs] = torch.autograd.grad(expected, weight, upstream)
    assert ours.dtype == torch.float32 and F.cosine_similarity(ours.flatten(), theirs.flatten(), 0) > 0.999


def test_rows_without_anything_above_zero_are_zeros_and_learn_nothing():
    images, weight = torch.ones(2, 3, 4, 4, device=ON), -torch.ones(16, 27, device=ON, requires_grad=True)
    found, which = torch.ops.clearhead.largest_windows(images, weight)
    assert not found.any() and (which == 9).all()
    assert not torch.autograd.grad(found.sum(), weight)[0].any()


def test_there_is_no_way_back_to_the_pixels_and_it_is_told():
    images = torch.randn(1, 3, 4, 4, device=ON, requires_grad=True)
    with pytest.raises(RuntimeError, match="no way back to the pixels"):
        torch.ops.clearhead.largest_windows(images, torch.randn(8, 27, device=ON))


def test_the_compiler_is_told_what_the_operators_give():
    images, weight = torch.randn(2, 3, 8, 8, device=ON), torch.randn(8, 27, device=ON, requires_grad=True)
    at = torch.tensor([[3, 0], [15, 7]], device=ON)
    for given in (None, at):
        torch.library.opcheck(torch.ops.clearhead.largest_windows.default, (images, weight, given))
        rows, which = torch.ops.clearhead.largest_windows(images, weight.detach(), given)
        one_way = (images, given, rows, which)
        torch.library.opcheck(torch.ops.clearhead.largest_windows_backward.default, one_way)


def tokenizer() -> ConvolutionInput:
    layer = ConvolutionInput(3, 32, LearnedPositions(16, 32)).to(ON)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    return layer


@pytest.mark.parametrize("kept", [5, None])
def test_a_tokenizer_that_compiles_with_it_gives_what_one_without_it_gives(monkeypatch, kept):
    layer, images = tokenizer(), torch.randn(3, 3, 8, 8, device=ON)
    at = None if kept is None else torch.rand(3, 16, device=ON).argsort(1)[:, :kept]
    expected = layer(images, at)
    monkeypatch.setattr(ConvolutionInput, "_in_one_kernel", lambda self, images: True)
    found = torch.compile(layer, fullgraph=True, backend="aot_eager")(images, at)
    assert found.shape == expected.shape and (found - expected).abs().max() <= 3e-2 * expected.abs().max()
    ours, theirs = (
        torch.autograd.grad(one.float().square().sum(), layer.project.weight)[0] for one in (found, expected)
    )
    assert F.cosine_similarity(ours.flatten(), theirs.flatten(), 0) > 0.999


class OnACard:
    """Pictures as far as a layer looks at them before it chooses."""

    is_cuda, requires_grad, dtype, shape = True, False, torch.bfloat16, (2, 3, 8, 8)
    device = torch.device("cuda")

    def __init__(self, **changes: object) -> None:
        for name, value in changes.items():
            setattr(self, name, value)


OTHERS = {
    "not on a card": {"is_cuda": False},
    "in float32": {"dtype": torch.float32},
    "pixels that want a gradient": {"requires_grad": True},
    "an odd size": {"shape": (2, 3, 8, 7)},
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_other_pictures_keep_to_the_plain_way(changes):
    layer = tokenizer()
    assert layer._in_one_kernel(OnACard())  # pyright: ignore[reportArgumentType]
    assert not layer._in_one_kernel(OnACard(**changes))  # pyright: ignore[reportArgumentType]


def test_until_a_card_has_seen_it_it_has_to_be_asked_for(monkeypatch):
    layer = tokenizer()
    monkeypatch.delenv(kernels.ASKED_FOR)
    assert not layer._in_one_kernel(OnACard())  # pyright: ignore[reportArgumentType]
