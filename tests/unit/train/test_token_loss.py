"""The loss over a vocabulary that a GPU pads: the same sum and the same gradients as over logits cut to the words."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import clearhead
from clearhead.layers import embeddings, quantise
from clearhead.models import Model
from clearhead.trace import Recorder
from clearhead.train.token_loss import token_loss, word_logits
from tests.support import equal

VOCAB = 75  # padded to 128
SMALL = {"vocab": VOCAB, "width": 16, "layers": 1, "heads": 2, "ff": 32}
MODELS = {
    "gpt2": {**SMALL, "context": 16},
    "gpt2, untied": {**SMALL, "context": 16, "tied": False},
    "transformer-tiny": SMALL,
    "transformer-tiny, with a bias": {**SMALL, "output_bias": True},
    "transformer-tiny, two vocabularies": {**SMALL, "vocab": 40, "target_vocab": VOCAB, "tied": "decoder"},
    "t5-small": {**SMALL, "head_width": 8},
    "t5-small, untied": {**SMALL, "head_width": 8, "tied": False},
    "bert-base": {**SMALL, "context": 16, "task": "pretrain"},
}


@pytest.fixture
def padded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU."""
    monkeypatch.setattr(embeddings, "missing_rows", lambda weight: -len(weight) % 64)


def made(name: str) -> Model:
    model = clearhead.create(name.partition(",")[0], device="cpu", seed=0, **MODELS[name])
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.5 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(weight)))
    return model


def given() -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    hidden = torch.randn(3, 5, 16, generator=random)
    targets = torch.randint(VOCAB, (3, 5), generator=random)
    return hidden, targets, torch.rand(3, 5, generator=random)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_the_sum_and_every_gradient_are_those_of_cut_logits(padded, name, weighted, smoothing):
    model, (hidden, targets, weights) = made(name), given()
    hidden.requires_grad_()
    inputs = [hidden, *model.parameters()]
    logits = word_logits(model, hidden)
    assert logits.shape[-1] == VOCAB and word_logits(model, hidden, uncut=True).shape[-1] == 128
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none", label_smoothing=smoothing)
    expected = (losses * weights.flatten()).sum() if weighted else losses.sum()
    found = token_loss(model, hidden, targets, weights if weighted else None, smoothing)
    assert equal(found, expected, 1e-6)
    pairs = [torch.autograd.grad(loss, inputs, allow_unused=True) for loss in (found, expected)]
    for ours, theirs in zip(*pairs, strict=True):
        assert (ours is None) == (theirs is None)
        assert ours is None or (equal(ours, theirs, 1e-6) and ours.isfinite().all())


def test_the_padding_is_minus_infinity_and_words_are_what_they_were(padded):
    model, (hidden, _, _) = made("transformer-tiny, with a bias"), given()
    wide = word_logits(model, hidden, uncut=True)
    assert (wide[..., VOCAB:] == -torch.inf).all()
    assert equal(wide[..., :VOCAB], word_logits(model, hidden))
    assert equal(wide[..., :VOCAB], hidden @ model.output.weight.T + model.output_bias)


def test_logits_far_below_zero_lose_nothing(padded):
    """As real GPT-2's are: padding that counted as zeros and was subtracted again would leave nothing of them."""
    model, (hidden, targets, _) = made("transformer-tiny, with a bias"), given()
    with torch.no_grad():
        model.output_bias -= 200.0
    expected = F.cross_entropy(word_logits(model, hidden).double().flatten(0, 1), targets.flatten(), reduction="sum")
    assert equal(token_loss(model, hidden, targets), expected, 1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_vocabulary_that_needs_no_padding_is_summed_as_before(smoothing):
    model, (hidden, targets, weights) = made("gpt2"), given()
    logits = model.head(hidden).flatten(0, 1)
    losses = F.cross_entropy(logits, targets.flatten(), reduction="none", label_smoothing=smoothing)
    assert torch.equal(token_loss(model, hidden, targets, weights, smoothing), (losses * weights.flatten()).sum())


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_it_compiles_whole(padded, smoothing):
    model, (hidden, targets, weights) = made("gpt2"), given()
    torch._dynamo.reset()
    compiled = torch.compile(token_loss, fullgraph=True, backend="aot_eager")
    expected = token_loss(model, hidden, targets, weights, smoothing)
    assert equal(compiled(model, hidden, targets, weights, smoothing), expected)


def test_under_autocast_the_padding_stays_out(padded):
    model, (hidden, targets, _) = made("gpt2"), given()
    with torch.autocast("cpu", torch.bfloat16):
        found = token_loss(model, hidden, targets, None, 0.1)
        logits = word_logits(model, hidden).float().flatten(0, 1)
    expected = F.cross_entropy(logits, targets.flatten(), reduction="sum", label_smoothing=0.1)
    assert found.isfinite() and equal(found, expected)


def test_whoever_records_a_loss_sees_the_words_alone(padded):
    model, (hidden, targets, _) = made("gpt2"), given()
    with Recorder(model) as trace:
        token_loss(model, hidden, targets)
    assert trace["logits"].shape[-1] == VOCAB


@pytest.mark.parametrize("name", ["gpt2", "gpt2, untied", "t5-small, untied", "transformer-tiny"])
def test_heads_in_8_bits_answer_as_ever(name):
    model, (hidden, _, _) = made(name), given()
    before = model.head(hidden)
    assert equal(quantise(model).head(hidden), before, 0.05)
