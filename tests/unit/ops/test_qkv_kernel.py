"""Gradients of queries, keys and values side by side: the kernel, by Triton's interpreter, and autograd with it."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.layers import FeedForward, Heads, Int8Linear, LayerNorm, Pass, PreNormBlock, Rotary, SelfAttention
from clearhead.ops.joined_qkv import joined_qkv
from clearhead.ops.kernels import has_kernel
from tests.support import equal

pytest.importorskip("triton", reason="needs Triton, whose interpreter runs the kernel here")
ON = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def kernel() -> None:
    assert has_kernel("qkv_kernel")


def near(found: Tensor, expected: Tensor, share: float) -> bool:
    return bool((found.double() - expected.double()).abs().max() <= share * expected.double().abs().max())


LAYOUTS = {  # what (B,H,L,d) looks like in memory
    "heads first": lambda part: part.contiguous(),
    "tokens first": lambda part: part.transpose(1, 2).contiguous().transpose(1, 2),
    "features before tokens": lambda part: part.transpose(2, 3).contiguous().transpose(2, 3),
    "amid something larger": lambda part: F.pad(part, (8, 8, 3, 3, 1, 1), value=float("nan"))[:, 1:-1, 3:-3, 8:-8],
    "one token for all": lambda part: part[:, :, :1].expand_as(part),
}
SHAPES = {  # batch, query heads, key heads, length, features of a key and of a value
    "less than one strip and stretch": (2, 2, 2, 5, 8, 8),
    "whole strips": (2, 2, 2, 128, 64, 64),
    "a stretch and a bit, grouped": (3, 6, 2, 100, 64, 24),
    "odd in everything": (5, 7, 1, 77, 5, 23),
    "one feature": (2, 3, 3, 4, 1, 1),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_each_token_has_one_row_and_every_column_its_sum(layout, shape, dtype):
    batch, heads, groups, length, key, value = shape
    sizes = (heads, length, key), (groups, length, key), (groups, length, value)
    parts = [layout(torch.randn(batch, *size, device=ON).to(dtype)) for size in sizes]
    joined, sums = torch.ops.clearhead.join_heads(*parts)
    expected = torch.cat([part.transpose(1, 2).flatten(2) for part in parts], -1).flatten(0, 1)
    assert joined.dtype == dtype and torch.equal(joined, expected)
    assert sums.dtype == torch.float32 and equal(sums.sum(0), expected.double().sum(0))


def test_the_three_may_lie_in_memory_each_in_its_own_way():
    layouts = [LAYOUTS[name] for name in ("heads first", "tokens first", "amid something larger")]
    parts = [layout(torch.randn(3, 2, 100, 16, device=ON)) for layout in layouts]
    expected = torch.cat([part.transpose(1, 2).flatten(2) for part in parts], -1).flatten(0, 1)
    assert torch.equal(torch.ops.clearhead.join_heads(*parts)[0], expected)


def test_the_compiler_is_told_what_the_operator_gives():
    parts = tuple(torch.randn(2, 3, 150, 8, device=ON) for _ in range(3))
    torch.library.opcheck(torch.ops.clearhead.join_heads.default, parts)


def layer_of(width: int = 48, **options) -> SelfAttention:
    heads = options.pop("heads", Heads.of(width, 6, kv_count=3, value=10))
    layer = SelfAttention(width, heads, **options).to(ON)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    return layer


def plain(layer: SelfAttention, x: Tensor) -> tuple[Tensor, ...]:
    """Queries, keys and values as the layer makes them without a kernel."""
    assert not layer._goes_back_in_one_kernel(x)
    return layer._project(x, None)


def ours(layer: SelfAttention, x: Tensor) -> tuple[Tensor, ...]:
    counts = layer.heads.count, layer.heads.kv_count, layer.heads.kv_count
    return joined_qkv(x, layer.qkv.weight, layer.qkv.bias, layer.sizes, counts)


@pytest.mark.parametrize(("working", "share"), [(None, 1e-5), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize("compiled", [False, True])
def test_values_layout_and_dtypes_are_those_of_a_plain_product_and_the_gradients_too(working, share, compiled):
    layer, x = layer_of(), torch.randn(3, 100, 48, device=ON, requires_grad=True)
    inputs = [x, layer.qkv.weight, layer.qkv.bias]
    made = torch.compile(ours, fullgraph=True, backend="aot_eager") if compiled else ours
    with torch.autocast(ON, working, enabled=working is not None):
        found, expected = made(layer, x), plain(layer, x)
    assert all(part.dtype == (working or torch.float32) for part in found)
    assert [part.stride() for part in found] == [part.stride() for part in expected]
    assert len({part.untyped_storage().data_ptr() for part in found}) == 1
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
    upstream = [torch.randn_like(part) for part in expected]
    slopes, by_torch = (torch.autograd.grad(parts, inputs, upstream) for parts in (found, expected))
    assert [slope.dtype for slope in slopes] == [torch.float32] * 3
    for mine, theirs in zip(slopes, by_torch, strict=True):
        assert mine.shape == theirs.shape and near(mine, theirs, share)


def test_weights_in_bf16_have_gradients_in_bf16():
    layer, x = layer_of().bfloat16(), torch.randn(3, 100, 48, device=ON).bfloat16().requires_grad_()
    inputs = [x, layer.qkv.weight, layer.qkv.bias]
    upstream = [torch.randn_like(part) for part in plain(layer, x)]
    slopes, by_torch = (torch.autograd.grad(make(layer, x), inputs, upstream) for make in (ours, plain))
    for mine, theirs in zip(slopes, by_torch, strict=True):
        assert mine.dtype == torch.bfloat16 and near(mine, theirs, 1e-2)


def test_what_nobody_asked_of_has_a_gradient_of_zero():
    layer, x = layer_of(), torch.randn(2, 5, 48, device=ON)
    slopes, by_torch = (
        torch.autograd.grad(make(layer, x)[1].square().sum(), layer.qkv.weight)[0] for make in (ours, plain)
    )
    assert near(slopes, by_torch, 1e-5) and not slopes[: layer.sizes[0]].any()


@pytest.mark.parametrize("working", [None, torch.bfloat16], ids=["in float32", "in bf16"])
def test_a_layer_compiles_with_it(monkeypatch, working):
    layer, x = layer_of(causal=True), torch.randn(3, 100, 48, device=ON, requires_grad=True)
    inputs, found = [x, *layer.parameters()], []
    for taken in (False, True):
        monkeypatch.setattr(SelfAttention, "_goes_back_in_one_kernel", lambda self, x, taken=taken: taken)
        torch._dynamo.reset()
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=False)
        with torch.autocast(ON, working, enabled=working is not None):
            output = compiled(x)
        found.append([output, *torch.autograd.grad(output.float().square().sum(), inputs)])
    for theirs, mine in zip(*found, strict=True):
        assert mine.dtype == theirs.dtype and near(mine, theirs, 1e-5 if working is None else 1e-2)


def is_ours(parts: tuple[Tensor, ...]) -> bool:
    return all("JoinedQkv" in part.grad_fn.name() for part in parts)  # pyright: ignore[reportOptionalMemberAccess]


def test_the_layer_takes_it_for_whole_sequences_alone(monkeypatch):
    layer, x = layer_of(), torch.randn(2, 5, 48, device=ON)
    assert not is_ours(layer._project(x, None))
    monkeypatch.setattr(SelfAttention, "_goes_back_in_one_kernel", lambda self, x: True)
    assert is_ours(layer._project(x, None)) and not is_ours(layer._project(x, 2))


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)


ON_A_CARD: Any = SimpleNamespace(is_cuda=True)
NOT_ON_ONE: Any = SimpleNamespace(is_cuda=False)


def with_int8(layer: Any) -> SelfAttention:
    layer.qkv = Int8Linear(layer.qkv)
    return layer


def frozen(layer: SelfAttention, name: str) -> SelfAttention:
    getattr(layer.qkv, name).requires_grad_(False)
    return layer


OTHERS = {
    "no bias": lambda: layer_of(qkv_bias=False),
    "a bias that is not trained": lambda: frozen(layer_of(), "bias"),
    "a weight that is not trained": lambda: frozen(layer_of(), "weight"),
    "rotary": lambda: layer_of(rotary=Rotary(8)),
    "8 bits": lambda: with_int8(layer_of()),
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_layers_of_another_kind_keep_to_the_compilers_kernels(compiling, make):
    assert layer_of()._goes_back_in_one_kernel(ON_A_CARD)
    assert not make()._goes_back_in_one_kernel(ON_A_CARD)


def test_it_is_taken_only_where_a_card_is_trained_and_the_kernel_can_be_loaded(compiling, monkeypatch):
    layer = layer_of()
    assert layer._goes_back_in_one_kernel(ON_A_CARD)
    assert not layer._goes_back_in_one_kernel(NOT_ON_ONE)
    with torch.no_grad():
        assert not layer._goes_back_in_one_kernel(ON_A_CARD)
    monkeypatch.setattr("clearhead.layers.attention.has_kernel", lambda name: name != "qkv_kernel")
    assert not layer._goes_back_in_one_kernel(ON_A_CARD)


def test_a_layer_that_is_not_compiled_keeps_every_step_for_a_recorder_to_see():
    assert not layer_of()._goes_back_in_one_kernel(ON_A_CARD)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_compiled_block_trains_a_step_with_it_as_without(monkeypatch):
    attention, forward = SelfAttention(128, Heads.of(128, 2)), FeedForward(128, 512, "gelu")
    block = PreNormBlock(attention, forward, lambda: LayerNorm(128)).cuda()
    x = torch.randn(5, 197, 128, device="cuda", requires_grad=True)
    found, asked = [], SelfAttention._goes_back_in_one_kernel
    for taken in (False, True):
        monkeypatch.setattr(SelfAttention, "_goes_back_in_one_kernel", asked if taken else lambda self, x: False)
        torch._dynamo.reset()
        compiled = torch.compile(block, fullgraph=True)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
            with torch.autocast("cuda", torch.bfloat16):
                loss = compiled(x, Pass(), 0).float().square().sum()
            found.append([loss, *torch.autograd.grad(loss, [x, *block.parameters()])])
        assert any("join_heads" in event.key for event in seen.key_averages()) == taken
    for plain, mine in zip(*found, strict=True):
        assert mine.dtype == plain.dtype and near(mine, plain, 2e-2)
