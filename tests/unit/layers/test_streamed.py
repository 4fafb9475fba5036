"""Blocks whose products add to the stream where it lies give what blocks give, in any family that has them."""

from typing import Any

import pytest
import torch
from torch import Tensor

import clearhead
from clearhead.layers import FeedForward, Heads, LayerNorm, Pass, PreNormBlock, SelfAttention, Stack, streamed

SMALL = {"layers": 3, "width": 32, "heads": 2}
VIT = {**SMALL, "image": 8, "patch": 2, "num_classes": 5}
MODELS = {
    "vit-b16": VIT,
    "vit-b16, mean": {**VIT, "pooling": "mean"},
    "gpt2": {**SMALL, "vocab": 50, "context": 16},
    "t5-small": {**SMALL, "vocab": 50, "ff": 48, "head_width": 8},
}


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Any tensor is large enough, wherever it is; how many blocks each call was for."""
    calls: list[int] = []
    true = streamed.streamed

    def counted(blocks: Any, x: Tensor, shared: Pass) -> Tensor:
        calls.append(len(blocks))
        return true(blocks, x, shared)

    monkeypatch.setattr(streamed, "_is_large", lambda x: x.shape[1] > 1)
    monkeypatch.setattr("clearhead.layers.stack.streamed", counted)
    torch._dynamo.reset()
    return calls


def made(name: str) -> Any:
    model = clearhead.create(name.split(",")[0], device="cpu", seed=0, **MODELS[name]).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.3 if weight.dim() == 1 else weight.shape[-1] ** -0.5)
    return model


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_a_compiled_model_gives_what_it_gives_otherwise(taken, name):
    model = made(name)
    inputs = model.example(2)
    expected = model(*inputs)
    assert taken == []
    found = torch.compile(model, fullgraph=True, backend="aot_eager")(*inputs)
    assert taken[0] == (2 if name == "vit-b16" else 3)  # the class token alone goes through the last block
    assert torch.allclose(found, expected, atol=1e-5)


def stack(width: int = 32) -> Stack:
    def block() -> PreNormBlock:
        attention = SelfAttention(width, Heads.of(width, 2), causal=True)
        return PreNormBlock(attention, FeedForward(width, 64, "gelu"), lambda: LayerNorm(width))

    return Stack([block(), block()]).eval()


@torch.no_grad()
def test_what_the_caller_gave_stays_as_it_is(taken):
    x = torch.randn(2, 5, 32)
    before = x.clone()
    torch.compile(stack(), backend="aot_eager")(x, Pass())
    assert taken == [2] and torch.equal(x, before)


@torch.no_grad()
def test_a_single_block_that_answers_for_few_tokens_goes_the_usual_way(taken):
    model = clearhead.create("vit-b16", device="cpu", seed=0, **{**VIT, "layers": 1}).eval()
    images = model.example(2)[0]
    assert torch.allclose(torch.compile(model, backend="eager")(images), model(images), atol=1e-6) and taken == []


@pytest.mark.parametrize("odd", ["gradients", "training", "eager", "cached", "scaled", "autocast"])
def test_it_is_for_compiled_passes_without_gradients_or_caches(taken, odd):
    blocks, x, shared = stack(), torch.randn(2, 5, 32), Pass(scale=0.5 if odd == "scaled" else 1.0)
    blocks.train(odd == "training")
    if odd == "cached":
        cache = made("gpt2").new_cache(2, 8)
        cache.begin(5)
        shared = Pass(mask=cache.mask(5), cache=cache)
    run = blocks if odd == "eager" else torch.compile(blocks, backend="eager")
    with torch.set_grad_enabled(odd == "gradients"), torch.autocast("cpu", torch.bfloat16, odd == "autocast"):
        run(x, shared)
    assert taken == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@torch.inference_mode()
def test_on_a_gpu_it_is_as_near_to_fp32_as_the_usual_way(monkeypatch):
    model = clearhead.create("vit-b16", device="cuda", seed=0, layers=4, start="scaled").eval()
    torch.nn.init.normal_(model.output.weight, 0.02)  # a new model's head is all zeros
    images = torch.randn(8, 3, 224, 224, device="cuda")
    exact = model(images)
    model, images = model.bfloat16(), images.bfloat16()
    found = torch.compile(model, fullgraph=True)(images).float()
    torch._dynamo.reset()
    monkeypatch.setattr("clearhead.layers.stack.streams", lambda *given: False)
    usual = torch.compile(model, fullgraph=True)(images).float()
    apart = [(output - exact).abs().max() for output in (found, usual)]
    assert apart[0] <= 1.5 * apart[1] and not torch.equal(found, usual)
