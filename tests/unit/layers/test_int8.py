"""Weights in 8 bits: near the full ones in every family, a row's answer its own, a quarter of the memory."""

import pytest
import torch
from torch import nn

import clearhead
from clearhead import ClearheadError
from clearhead.layers import Int8Linear, Linear, bytes_of, quantise
from clearhead.layers.int8 import product, rounded
from clearhead.models.registry import FAMILIES
from tests.support import equal

NAMES = ("gpt2", "vit-ti16", "bert-base", "t5-small", "t5-v1.1-small", "transformer-tiny")
SMALL = {
    "gpt2": {"layers": 2, "width": 96, "heads": 4, "vocab": 500, "context": 32},
    "vit-ti16": {"layers": 2, "image": 32},
}
SMALL |= {"bert-base": {"layers": 2, "width": 96, "heads": 4, "vocab": 500, "context": 32, "task": "fill"}}
SMALL |= {name: {"layers": 2, "vocab": 500} for name in ("t5-small", "t5-v1.1-small", "transformer-tiny")}


def test_rounding_leaves_at_most_half_a_step_of_each_rows_own_scale():
    rows = torch.randn(5, 40) * torch.tensor([[1e-3], [1.0], [50.0], [1e4], [0.0]])
    numbers, scales = rounded(rows)
    assert numbers.dtype == torch.int8
    assert numbers[:4].abs().amax(-1).tolist() == [127] * 4
    assert bool(((numbers * scales - rows).abs() <= 0.5001 * scales).all())
    assert not numbers[4].any()


def test_the_product_is_that_of_the_rounded_numbers_exactly():
    x, weight, bias = torch.randn(3, 7, 24), torch.randn(11, 24), torch.randn(11)
    (numbers, scale), (rows, row_scale) = rounded(weight), rounded(x.flatten(0, 1))
    expected = (rows.double() * row_scale) @ (numbers.double() * scale).t() + bias
    assert equal(product(x, numbers, scale[:, 0], bias).flatten(0, 1), expected)


def test_a_rows_answer_is_the_same_bits_whatever_its_neighbours():
    layer, x = Int8Linear(Linear(64, 48)), torch.randn(9, 64)
    together = layer(x)
    assert all(torch.equal(layer(x[row : row + 1])[0], together[row]) for row in range(9))
    assert torch.equal(layer.part(x, slice(8, 20)), together[:, 8:20])


@pytest.mark.parametrize("name", NAMES)
def test_every_family_answers_nearly_the_same_from_a_quarter_of_the_memory(name):
    model = clearhead.create(name, device="cpu", seed=0, **SMALL[name])
    if hasattr(model, "output") and isinstance(model.output, nn.Linear):
        nn.init.normal_(model.output.weight, std=0.1)
    inputs = model.example(2, torch.Generator().manual_seed(0))
    with torch.inference_mode():
        before, size = model(*inputs), bytes_of(model)
        linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
        after = quantise(model)(*inputs)
    assert linear and not any(isinstance(module, nn.Linear) for module in model.modules())
    assert 0 < float((before - after).norm() / before.norm()) < 0.08
    assert bytes_of(model) < 0.4 * size


def test_every_registered_family_was_tried():
    families = {clearhead.create(name, device="meta").family for name in NAMES}
    assert families == set(FAMILIES)


def test_a_table_that_three_places_share_stays_one():
    model = clearhead.create("transformer-tiny", device="cpu", seed=0, **SMALL["transformer-tiny"])
    quantise(model)
    tables = [name for name, tensor in model.named_buffers() if name.endswith("tokens.weight")]
    assert tables == ["source.tokens.weight"]


def test_quantising_twice_is_refused():
    model = quantise(clearhead.create("deck", device="cpu", seed=0))
    with pytest.raises(ClearheadError, match="8 bits already"):
        quantise(model)
