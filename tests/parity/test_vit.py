"""ViT against transformers: logits and the attention weights of every layer, from files that they wrote."""

import json
import random
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import clearhead
from clearhead.convert import recognise
from clearhead.models import Model, find
from tests.support import equal, handed_over, large_handed_over, peer, redrawn, their_answer

transformers = peer("transformers")

ACTIVATIONS = ("gelu", "relu", "silu", "gelu_new", "quick_gelu", "tanh", "swish", "gelu_fast")


def built(std: float = 0.3, **fields: object) -> nn.Module:
    """Their classifier with every weight drawn anew, [CLS] and positions too."""
    config = transformers.ViTConfig(**fields, attn_implementation="eager")
    return redrawn(transformers.ViTForImageClassification(config), std)


def assert_same(model: Model, images: Tensor, theirs: tuple[Tensor, list[Tensor]]) -> None:
    """Ours gives their numbers: recorded, and on the fused path that answers for [CLS] alone in the last block."""
    trace = clearhead.record(model, images, sites="*.attention.weights")
    with torch.no_grad():
        fused = model(images)
    logits, attentions = theirs
    assert equal(trace.output, logits)
    assert equal(fused, logits)
    for layer, (mine, other) in enumerate(zip(trace.values.values(), attentions, strict=True)):
        assert equal(mine, other), f"layer {layer}"


def drawn(seed: int) -> dict[str, object]:
    """A small config of odd sizes, a non-square image among them, with the arithmetic fields drawn at random."""
    roll = random.Random(seed)
    heads = roll.choice([1, 2, 3, 5])
    patch = roll.choice([2, 3, 5])
    image = (patch * roll.choice([1, 2, 4]), patch * roll.choice([2, 3]))
    return {
        "image_size": image if seed % 3 else patch * 3,
        "patch_size": patch,
        "num_channels": roll.choice([1, 3, 4]),
        "hidden_size": heads * roll.choice([3, 7, 12]),
        "num_attention_heads": heads,
        "num_hidden_layers": roll.choice([1, 2, 3]),
        "intermediate_size": roll.choice([17, 50, 96]),
        "hidden_act": ACTIVATIONS[seed % len(ACTIVATIONS)],
        "layer_norm_eps": roll.choice([1e-12, 1e-6, 0.1]),
        "qkv_bias": roll.random() < 0.5,
        "num_labels": roll.choice([1, 2, 3, 11]),
    }


def test_every_field_that_their_own_config_has_is_known():
    assert recognise(json.loads(json.dumps(transformers.ViTConfig().to_dict())))[0] == "vit"


@pytest.mark.parametrize("seed", range(14))
def test_vit_with_any_arithmetic_gives_their_logits_and_weights(seed: int, tmp_path: Path):
    fields = drawn(seed)
    theirs = built(**fields)
    model = handed_over(theirs, tmp_path)
    images = torch.randn(3, model.config.channels, *model.config.image)
    assert model.config.num_classes == fields["num_labels"]
    assert_same(model, images, their_answer(theirs, images))


def test_patches_that_are_not_square_give_their_logits_and_weights(tmp_path: Path):
    theirs = built(image_size=(6, 20), patch_size=(3, 5), hidden_size=14, num_hidden_layers=2, num_attention_heads=2)
    model = handed_over(theirs, tmp_path)
    images = torch.randn(2, 3, 6, 20)
    assert_same(model, images, their_answer(theirs, images))


def test_the_fields_drawn_do_change_their_numbers():
    """So that the draws above can fail: a field that transformers ignored would prove nothing."""
    plain = {"image_size": 9, "patch_size": 3, "hidden_size": 14, "num_attention_heads": 2, "num_hidden_layers": 2}
    images = torch.randn(2, 3, 9, 9)
    base, _ = their_answer(seeded(plain), images)
    for change in ({"hidden_act": "relu"}, {"layer_norm_eps": 0.1}):
        assert not equal(their_answer(seeded(plain | change), images)[0], base), change


def seeded(fields: dict[str, object]) -> nn.Module:
    torch.manual_seed(7)
    return built(**fields)


@pytest.mark.parametrize(
    "name",
    ["vit-b16", *(pytest.param(name, marks=pytest.mark.large) for name in ("vit-l16", "vit-h14"))],
)
def test_a_published_size_in_full_gives_their_logits_and_weights(name: str, tmp_path: Path):
    config = find(name)[1]
    fields = {
        "image_size": config.image[0],
        "patch_size": config.patch[0],
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": 4 * config.width,
        "layer_norm_eps": config.norm_eps,
        "num_labels": config.num_classes,
    }
    images = torch.randn(1, 3, *config.image)
    spread = config.width**-0.5  # scores of ordinary size: larger ones turn rounding into other weights
    with large_handed_over(lambda: built(spread, **fields), images, tmp_path) as (model, numbers):
        assert model.config == config
        assert_same(model, images, numbers)
