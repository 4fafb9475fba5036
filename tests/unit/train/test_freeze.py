"""Frozen weights stay bit for bit, whatever the optimiser; globs that match nothing are named."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.errors import ClearheadError
from clearhead.models import FAMILIES, Model
from clearhead.train.freeze import freeze, frozen, unfreeze
from clearhead.train.optimiser import Optimiser, build


def vit() -> Model:
    model = FAMILIES["vit"].model(FAMILIES["vit"].shrunken)
    model.initialise(torch.Generator().manual_seed(0))
    return model.train()


def trained(model: Model, settings: Optimiser) -> None:
    updater = build(model, settings)
    images = model.example(4)[0]
    for _ in range(3):
        F.cross_entropy(model(images), torch.tensor([0, 1, 2, 3])).backward()
        updater.clip_gradients()
        updater.step()
        updater.zero_grad()


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_frozen_weights_are_bit_unchanged_after_steps_with_decay_and_all_others_move(name):
    model, start = vit(), vit()
    held = freeze(model, ["input", "encoder.blocks.0", "*.bias"])
    trained(model, Optimiser(name=name, rate=0.01, weight_decay=0.5))
    for weight_name, weight in model.named_parameters():
        unchanged = torch.equal(weight, start.get_parameter(weight_name))
        assert unchanged == (weight_name in held), weight_name


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_weights_frozen_in_the_middle_of_a_run_stay_from_then_on(name):
    model = vit()
    updater = build(model, Optimiser(name=name, rate=0.01, weight_decay=0.5))
    images, classes = model.example(4)[0], torch.tensor([0, 1, 2, 3])
    F.cross_entropy(model(images), classes).backward()
    updater.step()
    updater.zero_grad()
    held = freeze(model, ["encoder.blocks.1"])
    before = {name: model.get_parameter(name).detach().clone() for name in held}
    F.cross_entropy(model(images), classes).backward()
    updater.step()
    assert all(torch.equal(before[name], model.get_parameter(name)) for name in held)


def test_a_module_stands_for_all_weights_in_it_and_not_for_its_namesakes():
    config = FAMILIES["vit"].shrunken.with_changes(layers=11)
    model = FAMILIES["vit"].model(config)
    held = freeze(model, ["encoder.blocks.1"])
    assert held and all(name.startswith("encoder.blocks.1.") for name in held)
    assert frozen(model) == held


def test_all_can_be_frozen_and_a_part_let_go_again():
    model = vit()
    freeze(model, ["*"])
    assert unfreeze(model, ["output", "encoder.norm.*"]) == [
        "encoder.norm.weight",
        "encoder.norm.bias",
        "output.weight",
        "output.bias",
    ]
    assert set(frozen(model)) == {name for name, _ in vit().named_parameters()} - {
        "encoder.norm.weight",
        "encoder.norm.bias",
        "output.weight",
        "output.bias",
    }


@pytest.mark.parametrize("act", [freeze, unfreeze])
def test_a_glob_that_matches_nothing_is_an_error_that_names_near_ones_and_changes_nothing(act):
    model = vit()
    model.get_parameter("output.bias").requires_grad_(False)
    with pytest.raises(
        ClearheadError, match="no weight or module is named 'encoder.block.0'; did you mean 'encoder.blocks.0'"
    ):
        act(model, ["output", "encoder.block.0"])
    assert frozen(model) == ["output.bias"]
