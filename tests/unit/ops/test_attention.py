"""The one attention function: both paths against loops in float64, and against each other, outputs and gradients."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from clearhead.ops import PATHS, attention, masks
from tests.support import attention_by_loops, equal


@dataclass
class Case:
    queries: int = 6
    keys: int = 6
    heads: int = 4
    kv_heads: int = 4
    key: int = 8
    value: int = 8
    mask: Tensor | None = None
    bias: bool = False
    options: dict = field(default_factory=dict)

    def inputs(self) -> list[Tensor]:
        """query, key, value and, where the case has one, a bias: leaves that gradients can be asked of."""
        shapes = [
            (2, self.heads, self.queries, self.key),
            (2, self.kv_heads, self.keys, self.key),
            (2, self.kv_heads, self.keys, self.value),
        ]
        shapes += [(1, self.heads, self.queries, self.keys)] if self.bias else []
        return [torch.randn(shape, requires_grad=True) for shape in shapes]

    def run(self, inputs: list[Tensor], path: str) -> Tensor:
        query, key, value, *bias = inputs
        return attention(query, key, value, mask=self.mask, bias=bias[0] if bias else None, path=path, **self.options)

    def allowed(self) -> Tensor:
        """Who may look where, (2, heads, queries, keys), from the words of the signature."""
        allowed = torch.ones(2, self.heads, self.queries, self.keys, dtype=torch.bool)
        window = self.options.get("window")
        for i in range(self.queries):
            stands_at = i + self.keys - self.queries
            for j in range(self.keys):
                ahead = self.options.get("causal", False) and j > stands_at
                far = window is not None and abs(j - stands_at) > window - 1
                allowed[:, :, i, j] = not (ahead or far)
        return allowed if self.mask is None else allowed & self.mask


def blind(*rows: int) -> Tensor:
    """A mask in which these queries of the first row may look at nothing, and the second row's at half the keys."""
    mask = torch.ones(2, 1, 6, 6, dtype=torch.bool)
    mask[0, :, list(rows)] = False
    mask[1, :, :, 3:] = False
    return mask


CASES = {
    "plain": Case(),
    "cross": Case(queries=4, keys=7),
    "one key": Case(keys=1),
    "own scale": Case(options={"scale": 1.0}),
    "causal": Case(options={"causal": True}),
    "causal, fewer queries than keys": Case(queries=3, keys=7, options={"causal": True}),
    "causal, more queries than keys": Case(queries=7, keys=4, options={"causal": True}),
    "padding": Case(mask=masks.padding(torch.tensor([6, 3]), 6)),
    "padding and causal": Case(mask=masks.padding(torch.tensor([6, 3]), 6), options={"causal": True}),
    "mask of a head": Case(mask=torch.rand(2, 4, 6, 6, generator=torch.Generator().manual_seed(3)) > 0.4),
    "bias": Case(bias=True),
    "bias and mask": Case(bias=True, mask=masks.padding(torch.tensor([2, 5]), 6)),
    "bias and causal": Case(bias=True, options={"causal": True}),
    "window": Case(options={"window": 2}),
    "window and causal": Case(options={"window": 3, "causal": True}),
    "window, fewer queries than keys": Case(queries=2, keys=9, options={"window": 4, "causal": True}),
    "window and padding": Case(mask=masks.padding(torch.tensor([6, 1]), 6), options={"window": 2}),
    "grouped": Case(kv_heads=2),
    "grouped and causal": Case(kv_heads=1, options={"causal": True}),
    "grouped, mask and bias": Case(kv_heads=2, bias=True, mask=masks.padding(torch.tensor([4, 6]), 6)),
    "d_v differs from d_k": Case(value=5),
    "d_v differs, causal": Case(key=4, value=10, options={"causal": True}),
    "blind rows": Case(mask=blind(1, 4)),
    "blind rows and bias": Case(mask=blind(0), bias=True),
    "a row blind throughout": Case(mask=masks.padding(torch.tensor([0, 6]), 6)),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request) -> Case:
    return request.param


@pytest.mark.parametrize("path", PATHS)
def test_attention_equals_loops_in_float64(case, path):
    inputs = case.inputs()
    bias = inputs[3].expand(2, -1, -1, -1) if case.bias else None
    expected = attention_by_loops(*inputs[:3], case.allowed(), bias, case.options.get("scale"))
    assert equal(case.run(inputs, path), expected)


def test_both_paths_agree_in_output_and_gradients(case):
    inputs = case.inputs()
    reference, fused = (case.run(inputs, path) for path in ("reference", "fused"))
    assert equal(fused, reference)
    towards = torch.randn_like(reference)
    for ours, theirs in zip(*(torch.autograd.grad(out, inputs, towards) for out in (fused, reference)), strict=True):
        assert torch.isfinite(ours).all()
        assert equal(ours, theirs)


@pytest.mark.parametrize("path", PATHS)
def test_a_query_that_may_look_at_nothing_gets_zeros_and_sends_no_gradient(path):
    case = CASES["blind rows"]
    inputs = case.inputs()
    output = case.run(inputs, path)
    assert torch.equal(output[0, :, [1, 4]], torch.zeros(4, 2, 8))
    gradients = torch.autograd.grad(output.square().sum(), inputs)
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    assert torch.equal(gradients[0][0, :, [1, 4]], torch.zeros(4, 2, 8))
    assert gradients[0][0, :, 0].abs().max() > 0


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"mask": masks.padding(torch.tensor([2]), 3)}], ids=str)
def test_dropout_changes_every_draw_but_not_the_mean(path, options):
    draws = 20000
    query, key, value = (torch.randn(1, 1, 3, 4) for _ in range(3))
    many = [x.expand(draws, -1, -1, -1) for x in (query, key, value)]
    dropped = attention(*many, dropout=0.3, path=path, **options)
    spread = dropped.std(0)
    assert spread.min() > 0.01
    error = (dropped.mean(0) - attention(query, key, value, path=path, **options)[0]).abs()
    assert (error < 5 * spread / draws**0.5).all()


@pytest.mark.parametrize("path", PATHS)
def test_attention_works_in_bfloat16(path):
    inputs = [x.detach() for x in CASES["bias and mask"].inputs()]
    exact = CASES["bias and mask"].run(inputs, path)
    rough = CASES["bias and mask"].run([x.bfloat16() for x in inputs], path)
    assert rough.dtype == torch.bfloat16
    assert equal(rough, exact, tolerance=3e-2)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("autocast", [False, True])
def test_on_a_cpu_bf16_that_learns_is_fp32_rounded_once(name, autocast):
    case = CASES[name]
    inputs = [tensor.detach().bfloat16().requires_grad_() for tensor in case.inputs()]
    exact = [tensor.detach().float().requires_grad_() for tensor in inputs]
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = case.run(inputs, "fused")
    expected = case.run(exact, "fused")
    assert found.dtype == torch.bfloat16 and torch.equal(found, expected.bfloat16())
    slopes = torch.randn(expected.shape).bfloat16()
    found.backward(slopes)
    expected.backward(slopes.float())
    for ours, theirs in zip(inputs, exact, strict=True):
        assert ours.grad is not None and theirs.grad is not None and torch.equal(ours.grad, theirs.grad.bfloat16())
