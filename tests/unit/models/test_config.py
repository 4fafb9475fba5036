"""Configs: frozen, checked, made from and into plain dictionaries, and what they imply."""

import dataclasses
import json

import pytest

from clearhead.errors import ClearheadError
from clearhead.models import FAMILIES
from clearhead.models.gpt import GPTConfig
from clearhead.models.vit import ViTConfig

CONFIGS = {name: config for family in FAMILIES.values() for name, config in family.sizes.items()}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_config_survives_json(config):
    assert type(config).from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_family_says_of_which_kind_its_configs_are(family):
    assert all(type(config) is family.config for config in (*family.sizes.values(), family.shrunken))
    assert set(family.paper) <= set(family.sizes)
    assert family.model.family == family.name


def test_a_config_can_not_be_changed_but_a_changed_one_can_be_made():
    config = GPTConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.width = 10
    assert config.with_changes(layers=3) == GPTConfig(layers=3)
    assert config == GPTConfig()


def test_changes_are_checked_together():
    assert GPTConfig().with_changes(width=21, heads=7).heads == 7
    with pytest.raises(ClearheadError, match="heads don't divide"):
        GPTConfig().with_changes(width=21)


def test_an_unknown_key_of_a_dictionary_is_an_error_that_names_the_nearest():
    with pytest.raises(ClearheadError, match="GPTConfig has no field 'n_layer'; did you mean 'layers'"):
        GPTConfig.from_dict({"n_layer": 3})


def test_one_number_means_a_square():
    assert ViTConfig(image=32, patch=8, stride=4) == ViTConfig(image=(32, 32), patch=(8, 8), stride=(4, 4))


@pytest.mark.parametrize(
    ("changes", "grid", "tokens"),
    [
        ({}, (14, 14), 197),
        ({"pooling": "mean"}, (14, 14), 196),
        ({"image": (32, 64)}, (2, 4), 9),
        ({"image": 32, "patch": 8, "stride": 4}, (7, 7), 50),
        ({"image": (20, 32), "patch": (4, 8)}, (5, 4), 21),
    ],
)
def test_the_grid_and_the_number_of_tokens_follow_from_image_patch_and_stride(changes, grid, tokens):
    config = ViTConfig(**changes)
    assert config.grid == grid
    assert config.tokens == tokens
