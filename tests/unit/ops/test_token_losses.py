"""Losses and slopes in one kernel, run by Triton's interpreter or a GPU, against cross-entropy in float64."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.layers import embeddings
from clearhead.ops.float8 import can_multiply
from clearhead.train.vocabulary_loss import vocabulary_loss
from tests.support import equal

pytest.importorskip("triton", reason="needs Triton, whose interpreter runs the kernel here")
pytestmark = pytest.mark.filterwarnings("ignore:overflow")  # the interpreter's, over garbage that is masked later
ON = "cuda" if torch.cuda.is_available() else "cpu"
ROUNDED = 2.0**-8 if ON == "cuda" else 2.0**-7  # to bf16: the interpreter does not round, it cuts off
WORDS, COLUMNS, WIDTH = 97, 128, 16
Loss = Callable[..., Tensor]


class Case(NamedTuple):
    """`words` of `columns`, the padding filled with garbage; `lanes` so few that a row has several blocks."""

    weighted: bool = False
    smoothing: float = 0.0
    dtype: torch.dtype = torch.float32
    scale: float = 3.0
    lanes: int = 4
    rows: int = 3
    columns: int = COLUMNS
    words: int = WORDS

    def given(self) -> tuple[Tensor, Tensor, Tensor | None]:
        random = torch.Generator().manual_seed(3)
        logits = self.scale * torch.randn(self.rows, self.columns, generator=random)
        logits[:, self.words :: 2], logits[:, self.words + 1 :: 2] = torch.nan, 1e4
        targets = torch.randint(self.words, (self.rows,), generator=random)
        targets[:2] = torch.tensor([0, self.words - 1])
        weights = torch.rand(self.rows, generator=random) if self.weighted else None
        return logits.to(ON, self.dtype), targets.to(ON), None if weights is None else weights.to(ON)


CASES = {
    "plain": Case(),
    "weights": Case(weighted=True),
    "smoothing": Case(smoothing=0.1),
    "weights and smoothing": Case(weighted=True, smoothing=0.1),
    "no padding": Case(smoothing=0.1, words=COLUMNS),
    "one broken block": Case(smoothing=0.1, lanes=64),
    "large logits": Case(scale=300.0),
    "bf16": Case(dtype=torch.bfloat16),
    "bf16, weights and smoothing": Case(weighted=True, smoothing=0.1, dtype=torch.bfloat16),
    "bf16, large logits": Case(dtype=torch.bfloat16, scale=300.0),
}
AS_GPT2S = Case(rows=64, columns=50304, words=50257, lanes=2048)


def check(case: Case, slack: float) -> None:
    from clearhead.ops.token_losses import losses_and_slopes

    logits, targets, weights = case.given()
    exact = logits.double().requires_grad_()
    expected = F.cross_entropy(exact[:, : case.words], targets, reduction="none", label_smoothing=case.smoothing)
    expected = expected if weights is None else expected * weights
    slopes = torch.autograd.grad(expected.sum(), exact)[0]
    losses = losses_and_slopes(logits, targets, weights, case.smoothing, case.words, lanes=case.lanes)
    assert losses.dtype == torch.float32 and equal(losses, expected, slack)
    assert (logits[:, case.words :] == 0).all()
    if case.dtype == torch.float32:
        assert equal(logits, slopes, slack)
    else:
        assert torch.allclose(logits.double(), slopes, rtol=ROUNDED, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_losses_and_slopes_are_those_of_cross_entropy(name):
    check(CASES[name], 1e-6 if name != "large logits" else 1e-4)  # the interpreter fuses no product and sum


def test_what_is_no_word_has_an_infinite_loss():
    from clearhead.ops.token_losses import losses_and_slopes

    logits, targets, _ = Case().given()
    targets[1] = WORDS
    losses = losses_and_slopes(logits, targets, None, 0.0, WORDS)
    assert losses.isinf().tolist() == [False, True, False]


@pytest.fixture
def padded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU."""
    monkeypatch.setattr(embeddings, "missing_rows", lambda weight: -len(weight) % 64)


def plain_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, weights: Tensor | None, smoothing: float
) -> Tensor:
    logits = F.linear(hidden, weight, bias).float()
    losses = F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)
    return losses.sum() if weights is None else (losses * weights).sum()


def loss_and_gradients(
    loss: Loss, inputs: list[Tensor], targets: Tensor, smoothing: float, mixed: bool
) -> list[Tensor]:
    """Of hidden states, a table and maybe a bias. The loss counts by 0.3, which the way back must not forget."""
    weights = torch.linspace(0.0, 1.0, len(targets), device=ON)
    bias = inputs[2] if len(inputs) == 3 else None
    with torch.autocast(ON, torch.bfloat16, enabled=mixed):
        found = 0.3 * loss(inputs[0], inputs[1], bias, targets, weights, smoothing)
    return [found.detach(), *torch.autograd.grad(found, [tensor for tensor in inputs if tensor.requires_grad])]


def head(rows: int = 6, words: int = WORDS, width: int = WIDTH) -> tuple[list[Tensor], Tensor]:
    torch.manual_seed(4)
    inputs = [torch.randn(*size).to(ON).requires_grad_() for size in ((rows, width), (words, width), (words,))]
    return inputs, torch.randint(words, (rows,)).to(ON)


def near(found: list[Tensor], expected: list[Tensor], slack: float) -> bool:
    return all(
        ours.dtype == theirs.dtype and bool((ours - theirs).abs().max() <= slack * theirs.abs().max())
        for ours, theirs in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize(("parts", "smoothing"), [(2, 0.0), (3, 0.1)])
def test_product_and_loss_have_the_gradients_of_the_plain_formula(padded, parts, smoothing, mixed):
    inputs, targets = head()
    found, expected = (
        loss_and_gradients(loss, inputs[:parts], targets, smoothing, mixed) for loss in (vocabulary_loss, plain_loss)
    )
    assert near(found, expected, 0.02 if mixed else 1e-5)


@pytest.mark.skipif(not can_multiply(torch.device(ON)), reason="this GPU has no products in 8 bits")
@pytest.mark.parametrize(("parts", "smoothing"), [(2, 0.0), (3, 0.1)])
def test_a_product_in_8_bits_changes_loss_and_gradients_by_its_rounding_and_no_more(padded, parts, smoothing):
    inputs, targets = head(rows=64)
    eight = functools.partial(vocabulary_loss, float8=True)
    found, plain = (
        loss_and_gradients(loss, inputs[:parts], targets, smoothing, True) for loss in (eight, vocabulary_loss)
    )
    assert near(found, plain, 0.2) and not near(found, plain, 0.002)  # products of 16 terms
    assert abs(found[0] - plain[0]) < 0.01 * plain[0]


def test_a_frozen_table_gets_no_gradient(padded):
    inputs, targets = head()
    inputs[1].requires_grad_(False)
    found, expected = (loss_and_gradients(loss, inputs, targets, 0.0, False) for loss in (vocabulary_loss, plain_loss))
    assert len(found) == 3 and near(found, expected, 1e-5)


def test_it_compiles_whole(padded):
    inputs, targets = head()
    torch._dynamo.reset()
    compiled = torch.compile(vocabulary_loss, fullgraph=True, backend="aot_eager")
    found, expected = (loss_and_gradients(loss, inputs, targets, 0.1, True) for loss in (compiled, vocabulary_loss))
    assert near(found, expected, 1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(ON == "cpu", reason="needs a CUDA device")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_rows_may_be_as_wide_as_gpt2s(dtype, smoothing):
    check(AS_GPT2S._replace(weighted=True, dtype=dtype, smoothing=smoothing), 1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(ON == "cpu", reason="needs a CUDA device")
@pytest.mark.parametrize(("compiled", "float8"), [(False, False), (True, False), (True, True)])
def test_gradients_of_a_head_as_large_as_gpt2s(compiled, float8):
    inputs, targets = head(64, 50257, 768)
    torch._dynamo.reset()
    ours = functools.partial(vocabulary_loss, float8=float8)
    ours = torch.compile(ours, fullgraph=True) if compiled else ours
    found, expected = (loss_and_gradients(loss, inputs[:2], targets, 0.0, True) for loss in (ours, plain_loss))
    assert near(found, expected, 0.3 if float8 else 0.02)


@pytest.mark.gpu
@pytest.mark.skipif(ON == "cpu", reason="needs a CUDA device")
def test_a_cuda_graph_gives_the_same_for_other_inputs():
    inputs, targets = head(64, 50257, 768)

    def run() -> list[Tensor]:
        return loss_and_gradients(vocabulary_loss, inputs, targets, 0.1, True)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = run()
    with torch.no_grad():
        inputs[0].mul_(0.5)
    targets.fill_(7)
    graph.replay()
    assert near(recorded, run(), 1e-5)
