"""Rows that were read twice: loss and slopes in one kernel, run by Triton's interpreter or a GPU, against float64."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.layers import embeddings
from clearhead.models import create
from clearhead.ops.kernels import has_kernel
from clearhead.train import consistency
from clearhead.train.consistency import agreeing_loss, apart
from clearhead.train.vocabulary_loss import agreeing_vocabulary_loss
from tests.support import equal

pytest.importorskip("triton", reason="needs Triton, whose interpreter runs the kernel here")
ON = "cuda" if torch.cuda.is_available() else "cpu"
ROUNDED = 2.0**-8 if ON == "cuda" else 2.0**-7  # to bf16: the interpreter does not round, it cuts off
WORDS, COLUMNS, WIDTH = 97, 128, 16


@pytest.fixture(autouse=True)
def kernel() -> None:
    assert has_kernel("agreeing_losses")


def exactly(
    logits: Tensor, targets: Tensor, weights: Tensor | None, smoothing: float, much: float
) -> tuple[Tensor, Tensor]:
    """Written out: the mean of both cross-entropies and so much of the divergence; the divergence."""
    counts = torch.ones(len(targets), device=ON) if weights is None else weights
    losses = F.cross_entropy(logits, targets.repeat(2), reduction="none", label_smoothing=smoothing)
    divergence = apart(logits)
    return (losses.view(2, -1).mean(0) + much * divergence) * counts, divergence * counts


def given(dtype: torch.dtype, words: int = WORDS, scale: float = 3.0) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(3)
    logits = scale * torch.randn(8, COLUMNS, generator=random)
    logits[:, words::2], logits[:, words + 1 :: 2] = torch.nan, 1e4
    logits[3, :words] = logits[7, :words]  # a row that agrees with itself
    targets, weights = torch.randint(words, (4,), generator=random), torch.rand(4, generator=random)
    return logits.to(ON, dtype), targets.to(ON), weights.to(ON)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("weighted", "smoothing", "words"), [(False, 0.0, WORDS), (True, 0.1, WORDS), (True, 0.1, 128)]
)
def test_losses_and_slopes_are_those_of_the_formula(dtype, weighted, smoothing, words):
    from clearhead.ops.agreeing_losses import agreeing_losses

    logits, targets, weights = given(dtype, words)
    counts = weights if weighted else None
    exact = logits[:, :words].double().requires_grad_()
    expected, divergence = exactly(exact, targets, counts, smoothing, 0.7)
    slopes = torch.autograd.grad(expected.sum(), exact)[0]
    losses, distance = agreeing_losses(logits, targets, counts, smoothing, 0.7, words)
    assert equal(losses, expected) and equal(distance, divergence) and abs(distance[3]) < 1e-6
    assert (logits[:, words:] == 0).all()
    if dtype == torch.float32:
        assert equal(logits[:, :words], slopes)
    else:
        assert torch.allclose(logits[:, :words].double(), slopes, rtol=ROUNDED, atol=1e-6)


def test_what_is_no_word_has_an_infinite_loss():
    from clearhead.ops.agreeing_losses import agreeing_losses

    logits, targets, _ = given(torch.float32)
    targets[1] = WORDS
    assert agreeing_losses(logits, targets, None, 0.1, 1.0, WORDS)[0].isinf().tolist() == [False, True, False, False]


def head() -> tuple[list[Tensor], Tensor, Tensor]:
    torch.manual_seed(4)
    inputs = [torch.randn(*size).to(ON).requires_grad_() for size in ((8, WIDTH), (WORDS, WIDTH), (WORDS,))]
    return inputs, torch.randint(WORDS, (4,)).to(ON), torch.rand(4).to(ON)


@pytest.mark.parametrize("compiled", [False, True])
def test_product_and_loss_have_the_gradients_of_the_plain_formula(monkeypatch, compiled):
    monkeypatch.setattr(embeddings, "missing_rows", lambda weight: -len(weight) % 64)  # as on a GPU
    inputs, targets, weights = head()
    made = torch.compile(agreeing_vocabulary_loss, fullgraph=True, backend="aot_eager") if compiled else None
    loss, distance = (made or agreeing_vocabulary_loss)(tuple(inputs), targets, weights, 0.1, 0.7)
    expected, divergence = (each.sum() for each in exactly(F.linear(*inputs), targets, weights, 0.1, 0.7))
    assert equal(loss, expected) and equal(distance, divergence) and not distance.requires_grad
    ours, theirs = (torch.autograd.grad(0.3 * one, inputs) for one in (loss, expected))
    assert all(equal(mine, other) for mine, other in zip(ours, theirs, strict=True))


def test_a_translators_loss_takes_it_where_a_gpu_learns_and_gives_the_same(monkeypatch):
    sizes = {"vocab": WORDS, "width": 32, "layers": 1, "heads": 2, "ff": 64}
    model = create("transformer-tiny", device=ON, seed=0, **sizes)
    hidden, targets = torch.randn(6, 5, 32, device=ON), torch.randint(WORDS, (3, 5), device=ON)
    weights, found = torch.rand(3, 5, device=ON), []
    for taken in (False, True):
        monkeypatch.setattr(consistency, "in_one_step", lambda model, hidden, taken=taken: taken)
        found.append(agreeing_loss(model, hidden, targets, weights, 0.1, 2.0))
    assert ["vocabulary_loss" in str(one["loss"].grad_fn) for one in found] == [False, True]
    assert found[0].keys() == found[1].keys() and all(equal(found[1][name], found[0][name]) for name in found[0])


@pytest.mark.parametrize(("words", "taken"), [(16384, True), (16385, False)])
def test_it_is_for_rows_that_fit(monkeypatch, words, taken):
    monkeypatch.setattr(consistency, "in_one_step", lambda model, hidden: True)
    model = create("transformer-tiny", device="meta", vocab=words)
    assert consistency._has_kernel(model, torch.empty(0)) == taken


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_vocabulary_of_10_000_words_on_a_gpu():
    from clearhead.ops.agreeing_losses import agreeing_losses

    logits = 3 * torch.randn(512, 10_112, device="cuda").bfloat16()
    targets, exact = torch.randint(10_000, (256,), device="cuda"), logits[:, :10_000].double().requires_grad_()
    expected, divergence = exactly(exact, targets, None, 0.1, 1.0)
    slopes = torch.autograd.grad(expected.sum(), exact)[0]
    losses, distance = agreeing_losses(logits, targets, None, 0.1, 1.0, 10_000)
    assert equal(losses, expected) and equal(distance, divergence)
    assert torch.allclose(logits[:, :10_000].double(), slopes, rtol=ROUNDED, atol=1e-6)
