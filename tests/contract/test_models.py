"""What every family must do, on the small config that it supplies. New ones fall under it by being registered."""

import copy
import os
import shutil
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.layers import CrossAttention, SelfAttention, use_path
from clearhead.models import FAMILIES, Model, find
from clearhead.trace import Recorder, sites_of
from tests.support import equal

BF16_TOLERANCE = 5e-2


# A family's models with other parts: a catalogue of their own (trace.VARIANTS) and a small config each.
PARTS = {
    "cct": ("vit", find("cct-7-3x1")[1].with_changes(image=(12, 8), width=24, layers=2, heads=3, ff=40, num_classes=5))
}
SMALL = {name: (name, family.shrunken) for name, family in FAMILIES.items()} | PARTS


@pytest.fixture(params=SMALL)
def name(request) -> str:
    return request.param


@pytest.fixture
def model(name) -> Model:
    """The family's small model. Weights that start constant, such as a head of zeros, are stirred: they hide faults."""
    (family, config), random = SMALL[name], torch.Generator().manual_seed(0)
    made = FAMILIES[family].model(config)
    made.initialise(random)
    with torch.no_grad():
        for weight in made.parameters():
            if weight.min() == weight.max():
                weight.add_(0.3 * torch.randn(weight.shape, generator=random))
    return made.eval()


@pytest.fixture
def inputs(model) -> tuple[Tensor, ...]:
    return model.example(2, torch.Generator().manual_seed(1))


def tensors(output) -> list[Tensor]:
    """An output's floating-point tensors, whatever holds them."""
    if isinstance(output, Tensor):
        return [output] if output.is_floating_point() else []
    parts = output.values() if isinstance(output, dict) else output
    return [tensor for part in parts for tensor in tensors(part)]


def loss(output) -> Tensor:
    """Cross-entropy against random classes along the last dimension; where that is 1, distance to random numbers."""
    random, total = torch.Generator().manual_seed(2), torch.zeros(())
    for out in tensors(output):
        if out.shape[-1] > 1:
            rows = out.flatten(0, -2)
            total = total + F.cross_entropy(rows, torch.randint(rows.shape[1], (len(rows),), generator=random))
        else:
            total = total + F.mse_loss(out, torch.randn(out.shape, generator=random))
    return total


def all_equal(ours, theirs, tolerance: float = 1e-5) -> bool:
    return all(equal(a, b, tolerance) for a, b in zip(tensors(ours), tensors(theirs), strict=True))


def bit_equal(ours, theirs) -> bool:
    return all(torch.equal(a, b) for a, b in zip(tensors(ours), tensors(theirs), strict=True))


def attention_layers(model: nn.Module) -> Iterator[tuple[str, SelfAttention | CrossAttention]]:
    return ((name, m) for name, m in model.named_modules() if isinstance(m, SelfAttention | CrossAttention))


def test_a_pass_is_finite_repeatable_and_is_head_of_hidden(model, inputs):
    output = model(*inputs)
    assert tensors(output)
    assert all(torch.isfinite(out).all() and len(out) == 2 for out in tensors(output))
    assert bit_equal(model(*inputs), output)
    assert bit_equal(model.head(model.hidden(*inputs)), output)


def test_the_reference_path_gives_the_same_as_the_fused_one(model, inputs):
    fused = model(*inputs)
    assert all_equal(use_path(model, "reference")(*inputs), fused)


def test_every_parameter_gets_a_finite_gradient_that_is_not_zero(model, inputs):
    loss(model.train()(*inputs)).backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert torch.isfinite(weight.grad).all(), name
        assert weight.grad.abs().max() > 0, name


def test_exactly_the_catalogued_sites_fire(name, model, inputs):
    with Recorder(model) as trace:
        model(*inputs)
    fired = {site.partition("#")[0] for site in trace}
    assert sorted(fired) == sorted(sites_of(name, model.config.layers))
    assert model.catalogue == name


def test_recording_changes_no_bit_of_the_reference_path(model, inputs):
    unrecorded = use_path(model, "reference")(*inputs)
    with Recorder(model):
        recorded = model(*inputs)
    assert bit_equal(recorded, unrecorded)
    assert bit_equal(model(*inputs), unrecorded)


def test_a_zeroed_head_equals_zeroed_columns_of_the_output_projection(model, inputs):
    layers = list(attention_layers(model))
    if not layers:
        pytest.skip(f"{model.family} has no attention layer")
    untouched = use_path(model, "reference")(*inputs)
    for name, layer in layers:
        head, width = layer.heads.count - 1, layer.heads.value
        by_hand = copy.deepcopy(model)
        columns = slice(head * width, (head + 1) * width)
        by_hand.get_submodule(name).out.weight.data[:, columns] = 0

        def without_head(output: Tensor, head: int = head) -> Tensor:
            return output.index_fill(1, torch.tensor([head]), 0.0)

        with Recorder(model, sites=[], replace={f"{name}.output": without_head}):
            ablated = model(*inputs)
        assert all_equal(ablated, by_hand(*inputs)), name
        assert not bit_equal(ablated, untouched), name


def test_compiling_finds_one_whole_graph_with_the_same_output(model, inputs):
    with torch.no_grad():
        assert all_equal(torch.compile(model, fullgraph=True, backend="aot_eager")(*inputs), model(*inputs))


def test_one_small_batch_is_learned_by_heart(model, inputs):
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    for _ in range(60):
        optimiser.zero_grad()
        loss(model(*inputs)).backward()
        optimiser.step()
    assert loss(model.eval()(*inputs)) < 0.05


def test_bfloat16_is_finite_and_near_fp32(model, inputs):
    exact = model(*inputs)
    halved = [x.bfloat16() if x.is_floating_point() else x for x in inputs]
    rough = model.bfloat16()(*halved)
    assert all(out.dtype == torch.bfloat16 for out in tensors(rough))
    assert all_equal(rough, exact, BF16_TOLERANCE)


COMPILER = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++") or shutil.which("clang++")


@pytest.mark.skipif(COMPILER is None, reason="Inductor needs a C++ compiler, and there is none")
@pytest.mark.parametrize("name", ["gpt"], indirect=True)
def test_inductor_code_gives_the_same(model, inputs):
    with torch.no_grad():
        assert all_equal(torch.compile(model, fullgraph=True)(*inputs), model(*inputs))
