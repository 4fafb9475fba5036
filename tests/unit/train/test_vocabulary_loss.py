"""Which heads end in one plain product, and when it is one step with the loss (tests/unit/ops has the step itself)."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import clearhead
from clearhead.errors import ClearheadError
from clearhead.layers import quantise
from clearhead.models import Model
from clearhead.recipes.start import named_run
from clearhead.train import token_loss as losses
from clearhead.train.loop import train
from clearhead.train.lora import LoRA, add_lora
from clearhead.train.token_loss import in_one_step, last_product, set_float8, token_loss, word_logits
from tests.support import equal

SMALL = {"vocab": 75, "width": 16, "layers": 1, "heads": 2, "ff": 32}
PLAIN = {
    "gpt2": {**SMALL, "context": 16},
    "gpt2, untied": {**SMALL, "context": 16, "tied": False},
    "transformer-tiny": SMALL,
    "transformer-tiny, with a bias": {**SMALL, "output_bias": True},
    "transformer-tiny, two vocabularies": {**SMALL, "vocab": 40, "target_vocab": 75, "tied": "decoder"},
    "t5-small": {**SMALL, "head_width": 8},
    "t5-small, untied": {**SMALL, "head_width": 8, "tied": False},
}


def made(name: str, **changes: object) -> Model:
    return clearhead.create(name.partition(",")[0], device="cpu", seed=0, **PLAIN.get(name, {}), **changes)


def given() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(3, 5, 16), torch.randint(75, (3, 5))


@pytest.mark.parametrize("name", PLAIN)
def test_the_last_product_is_what_the_head_answers(name):
    model, (hidden, _) = made(name), given()
    found = last_product(model, hidden)
    assert found is not None
    assert equal(F.linear(*found), word_logits(model, hidden).flatten(0, 1), 1e-6)


@pytest.mark.parametrize("name", PLAIN)
def test_a_product_in_8_bits_is_not_plain(name):
    assert last_product(quantise(made(name)), given()[0]) is None  # pyright: ignore[reportArgumentType]


def test_neither_is_an_adapted_one_nor_one_behind_more_layers():
    model = made("gpt2, untied")
    add_lora(model, LoRA(targets=("output",)))
    assert last_product(model, given()[0]) is None
    assert last_product(made("bert-base", **SMALL, context=16, task="pretrain"), given()[0]) is None


@pytest.mark.parametrize("way", [True, False])
def test_the_step_gets_the_product_and_all_that_the_loss_was_told(monkeypatch, way):
    model, (hidden, targets) = made("transformer-tiny, with a bias"), given()
    weights, calls = torch.rand(3, 5), list[tuple]()
    monkeypatch.setattr(losses, "in_one_step", lambda *_: way)
    monkeypatch.setattr(losses, "vocabulary_loss", lambda *told: calls.append(told) or torch.tensor(7.0))
    found = token_loss(model, hidden, targets, weights, 0.1)
    assert (found == 7.0) == way == bool(calls)
    if way:
        rows, weight, bias, *rest = calls[0]
        assert rows.shape == (15, 16) and weight is model.source.tokens.weight and bias is model.output_bias
        assert torch.equal(rest[0], targets.flatten()) and torch.equal(rest[1], weights.flatten()) and rest[2] == 0.1


def test_a_product_in_8_bits_is_asked_for_by_the_model(monkeypatch):
    model, told = made("gpt2"), list[tuple]()
    monkeypatch.setattr(losses, "in_one_step", lambda *_: True)
    monkeypatch.setattr(losses, "vocabulary_loss", lambda *given: told.append(given) or torch.tensor(7.0))
    monkeypatch.setattr(losses, "MANY", 75)
    monkeypatch.setattr(losses, "has_kernel", lambda _: True)
    monkeypatch.setattr(losses, "can_multiply", lambda _: True)
    token_loss(model, *given())
    set_float8(model, torch.device("cuda"))
    token_loss(model, *given())
    assert [rest[-1] for rest in told] == [False, True]


@pytest.mark.parametrize(
    ("changes", "device", "many", "told"),
    [
        ({}, "cuda", 4096, "precision=fp8 is for heads over at least 4,096 words: take bf16"),
        ({}, "cpu", 75, "precision=fp8 needs a GPU with products in 8 bits, and Triton: take bf16 on cpu"),
        ({"width": 24}, "cuda", 75, "precision=fp8 needs a width that is a multiple of 16, not 24"),
    ],
)
def test_what_can_not_be_in_8_bits_is_told(monkeypatch, changes, device, many, told):
    monkeypatch.setattr(losses, "MANY", many)
    monkeypatch.setattr(losses, "has_kernel", lambda _: True)
    monkeypatch.setattr(losses, "can_multiply", lambda _: True)
    model = clearhead.create("gpt2", device="cpu", seed=0, **PLAIN["gpt2"] | changes)
    with pytest.raises(ClearheadError, match=told):
        set_float8(model, torch.device(device))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("gpt-letters precision=fp8", "precision=fp8 is for heads over at least 4,096 words"),
        ("vit-digits precision=fp8", "precision=fp8 is for heads over at least 4,096 words"),
    ],
)
def test_a_run_that_can_not_be_in_8_bits_does_not_begin(tmp_path, words, told):
    name, *keys = words.split()
    with pytest.raises(ClearheadError, match=told):
        train(named_run(name, [], [*keys, "device=cpu"]), tmp_path / "run")


class OnGPU:
    """As a tensor on a GPU looks to whoever asks where it is and what its type is."""

    is_cuda, dtype, device = True, torch.bfloat16, torch.device("cuda")


def test_it_is_one_step_for_gradients_of_many_words_on_a_gpu_where_nobody_looks(monkeypatch):
    model = nn.Module()
    model.config = clearhead.models.gpt.GPTConfig(vocab=50257)
    hidden: Tensor = OnGPU()  # pyright: ignore[reportAssignmentType]
    monkeypatch.setattr(losses, "has_kernel", lambda name: name == "token_losses")
    assert in_one_step(model, hidden)
    assert not in_one_step(model, torch.zeros(3, 5, 16))
    assert not in_one_step(made("gpt2"), hidden)
    with torch.no_grad():
        assert not in_one_step(model, hidden)
    with monkeypatch.context() as looking:
        looking.setattr(losses, "recording", lambda: True)
        assert not in_one_step(model, hidden)
    monkeypatch.setattr(OnGPU, "dtype", torch.float16)
    assert not in_one_step(model, hidden)
    monkeypatch.setattr(losses, "has_kernel", lambda _: False)
    monkeypatch.setattr(OnGPU, "dtype", torch.bfloat16)
    assert not in_one_step(model, hidden)
