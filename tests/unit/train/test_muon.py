"""Muon against torch's own on the same gradients, and its iteration against singular values."""

import pytest
import torch
from torch import nn

from clearhead.models import FAMILIES
from clearhead.train.muon import COEFFICIENTS, STEPS, Muon, orthogonal
from clearhead.train.optimiser import Optimiser, build, matrices_of
from tests.support import equal

SHAPES = [(24, 24), (24, 24), (72, 24), (24, 96), (96, 24), (96, 24), (5, 7)]
THEIR_NAME = {"adamw": "match_rms_adamw", "original": "original"}


def weights() -> list[nn.Parameter]:
    random = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=random)) for shape in SHAPES]


def stepped(optimiser: torch.optim.Optimizer, moved: list[nn.Parameter], steps: int = 5) -> None:
    random = torch.Generator().manual_seed(1)
    for _ in range(steps):
        for weight in moved:
            weight.grad = torch.randn(weight.shape, generator=random)
        optimiser.step()


@pytest.mark.parametrize("scale", THEIR_NAME)
@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_muon_is_torchs_muon_on_the_same_gradients(scale, nesterov, decay):
    ours, theirs = weights(), weights()
    options = {"lr": 0.5, "weight_decay": decay, "momentum": 0.9, "nesterov": nesterov}
    stepped(Muon(ours, scale=scale, **options), ours)
    stepped(torch.optim.Muon(theirs, adjust_lr_fn=THEIR_NAME[scale], **options), theirs)
    assert all(equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_each_setting_changes_what_muon_does():
    def result(**changes) -> list[nn.Parameter]:
        moved = weights()
        stepped(Muon(moved, **{"lr": 0.1} | changes), moved, 2)
        return moved

    plain = result()
    for change in (
        {"lr": 0.2},
        {"weight_decay": 0.5},
        {"momentum": 0.5},
        {"nesterov": False},
        {"scale": "original"},
        {"dtype": torch.float32},
    ):
        assert not all(torch.equal(a, b) for a, b in zip(plain, result(**change), strict=True)), change


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 6, 20)])
def test_the_iteration_in_float32_is_its_polynomial_on_the_singular_values(shape):
    matrices = torch.randn(shape)
    left, values, right = torch.linalg.svd(matrices.double(), full_matrices=False)
    values = values / values.norm(dim=-1, keepdim=True)
    a, b, c = COEFFICIENTS
    for _ in range(STEPS):
        values = a * values + b * values**3 + c * values**5
    assert equal(orthogonal(matrices, torch.float32), left @ torch.diag_embed(values) @ right)
    assert values.min() > 0.3 and values.max() < 1.3


def test_a_zero_gradient_moves_nothing():
    weight = nn.Parameter(torch.randn(4, 6))
    before, weight.grad = weight.detach().clone(), torch.zeros(4, 6)
    Muon([weight], weight_decay=0.0).step()
    assert torch.equal(weight, before)


def test_parts_of_a_weight_move_as_if_each_were_a_weight_of_its_own():
    whole = nn.Parameter(torch.randn(20, 6))
    parts = [nn.Parameter(part.clone()) for part in whole.detach().split([8, 8, 4])]
    whole.grad = torch.randn(20, 6)
    for part, gradient in zip(parts, whole.grad.split([8, 8, 4]), strict=True):
        part.grad = gradient.clone()
    together = nn.Parameter(whole.detach().clone())
    together.grad = whole.grad.clone()
    Muon([{"params": [whole], "parts": [(8, 8, 4)]}], lr=0.5).step()
    torch.optim.Muon(parts, lr=0.5, adjust_lr_fn="match_rms_adamw").step()
    assert equal(whole, torch.cat(parts))
    Muon([together], lr=0.5).step()
    assert not equal(whole, together)


def test_q_k_v_and_the_halves_of_a_gated_layer_are_matrices_of_their_own():
    t5, gpt = (FAMILIES[name].model(FAMILIES[name].shrunken) for name in ("t5", "gpt"))
    assert matrices_of(t5, "encoder.blocks.0.attention.qkv.weight") == (15, 15, 15)
    assert matrices_of(t5, "encoder.blocks.0.feed_forward.gate_up.weight") == (40, 40)
    assert matrices_of(t5, "decoder.blocks.1.cross.query.weight") == (15,)
    assert matrices_of(gpt, "decoder.blocks.0.feed_forward.up.weight") == (96,)


def test_grouped_heads_split_q_from_the_narrower_k_and_v():
    config = FAMILIES["gpt"].shrunken.with_changes(heads=4, kv_heads=2)
    assert matrices_of(FAMILIES["gpt"].model(config), "decoder.blocks.0.attention.qkv.weight") == (24, 12, 12)


def test_built_muon_uses_parts_and_every_one_of_its_settings():
    def result(**changes) -> torch.Tensor:
        model = FAMILIES["gpt"].model(FAMILIES["gpt"].shrunken)
        model.initialise(torch.Generator().manual_seed(0))
        updater, random = (
            build(model, Optimiser(name="muon", **{"rate": 0.1} | changes)),
            torch.Generator().manual_seed(1),
        )
        for _ in range(2):
            for weight in model.parameters():
                weight.grad = torch.randn(weight.shape, generator=random)
            updater.step()
        return model.get_parameter("decoder.blocks.0.attention.qkv.weight").detach()

    plain = result()
    start = FAMILIES["gpt"].model(FAMILIES["gpt"].shrunken)
    start.initialise(torch.Generator().manual_seed(0))
    change = plain - 0.999**2 * start.get_parameter("decoder.blocks.0.attention.qkv.weight")
    for part in change.split(24):  # two steps of orthogonal matrices: no direction is lost in q, k or v
        assert torch.linalg.matrix_rank(part, rtol=0.02) == 24
    for option in ({"momentum": 0.5}, {"nesterov": False}, {"muon_scale": "original"}, {"muon_dtype": "float32"}):
        assert not torch.equal(plain, result(**option)), option
