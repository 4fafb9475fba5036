"""Google's ViT .npz against timm's own loader of such files: the same logits from the same arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead import ClearheadError
from clearhead.convert import open_weights, read_state
from clearhead.convert.google import GOOGLE
from clearhead.models import FAMILIES, Model
from clearhead.models.vit import ViTConfig
from clearhead.runs.convert import convert
from tests.support import equal, peer

timm = peer("timm")

TI16 = {"width": 192, "heads": 3, "layers": 12, "patch": 16, "tokens": 197, "classes": 1000}
SMALL = {"width": 24, "heads": 3, "layers": 2, "patch": 4, "tokens": 10, "classes": 5}


def arrays(
    width: int, heads: int, layers: int, patch: int, tokens: int, classes: int, std: float = 0.1
) -> dict[str, np.ndarray]:
    """Random parameters under the names and in the shapes of Google's published files."""
    each, ff = width // heads, 4 * width
    shapes: dict[str, tuple[int, ...]] = {
        "cls": (1, 1, width),
        "embedding/kernel": (patch, patch, 3, width),
        "embedding/bias": (width,),
        "Transformer/posembed_input/pos_embedding": (1, tokens, width),
        "Transformer/encoder_norm/scale": (width,),
        "Transformer/encoder_norm/bias": (width,),
        "head/kernel": (width, classes),
        "head/bias": (classes,),
    }
    for layer in range(layers):
        at = f"Transformer/encoderblock_{layer}"
        attention, mlp = f"{at}/MultiHeadDotProductAttention_1", f"{at}/MlpBlock_3"
        for norm in ("LayerNorm_0", "LayerNorm_2"):
            shapes |= {f"{at}/{norm}/scale": (width,), f"{at}/{norm}/bias": (width,)}
        for part in ("query", "key", "value"):
            shapes |= {f"{attention}/{part}/kernel": (width, heads, each), f"{attention}/{part}/bias": (heads, each)}
        shapes |= {f"{attention}/out/kernel": (heads, each, width), f"{attention}/out/bias": (width,)}
        shapes |= {f"{mlp}/Dense_0/kernel": (width, ff), f"{mlp}/Dense_0/bias": (ff,)}
        shapes |= {f"{mlp}/Dense_1/kernel": (ff, width), f"{mlp}/Dense_1/bias": (width,)}
    random = np.random.default_rng(0)
    return {
        name: (random.normal(size=shape) * std + name.endswith("scale")).astype(np.float32)
        for name, shape in shapes.items()
    }


def small_config() -> ViTConfig:
    return ViTConfig(width=24, heads=3, layers=2, patch=4, image=4)


def ours(path: Path, config: ViTConfig) -> Model:
    weights = open_weights(path)
    config = GOOGLE.settled(config, weights)
    model = FAMILIES["vit"].model(config)
    model.load_state_dict(read_state(weights, GOOGLE.dialect(config), model)[0])
    return model.eval()


def theirs(path: Path, name: str = "vit_tiny_patch16_224", **arguments: Any) -> torch.nn.Module:
    model = timm.create_model(name, **arguments)
    timm.models.vision_transformer._load_weights(model, str(path))
    return model.eval()


@torch.no_grad()
def test_a_small_file_gives_the_logits_that_timms_loader_gives(tmp_path: Path):
    np.savez(tmp_path / "small.npz", **arrays(**SMALL, std=0.3))
    model = ours(tmp_path / "small.npz", small_config())
    assert (model.config.image, model.config.num_classes) == ((12, 12), 5)
    sizes = {"embed_dim": 24, "depth": 2, "num_heads": 3, "img_size": 12, "patch_size": 4, "num_classes": 5}
    images = torch.randn(3, 3, 12, 12)
    assert equal(model(images), theirs(tmp_path / "small.npz", **sizes)(images))


@torch.no_grad()
def test_a_published_size_becomes_a_folder_that_transformers_loads_with_timms_logits(tmp_path: Path):
    np.savez(tmp_path / "ViT-Ti_16.npz", **arrays(**TI16))
    done = convert(tmp_path / "ViT-Ti_16.npz", tmp_path / "folder", arch="vit-ti16")
    assert (done.form, done.notes, done.parameters) == ("vit", (), 5_717_416)
    images = torch.randn(2, 3, 224, 224)
    logits = theirs(tmp_path / "ViT-Ti_16.npz")(images)
    assert equal(clearhead.load(tmp_path / "folder", device="cpu")(images), logits)
    kind = peer("transformers").ViTForImageClassification
    loaded, report = kind.from_pretrained(tmp_path / "folder", output_loading_info=True)
    assert {what: list(names) for what, names in report.items() if names} == {}
    assert equal(loaded.eval()(images).logits, logits)


def test_the_rules_read_both_ways_bit_for_bit(tmp_path: Path):
    given = arrays(**SMALL)
    np.savez(tmp_path / "small.npz", **given)
    weights = open_weights(tmp_path / "small.npz")
    config = GOOGLE.settled(small_config(), weights)
    dialect = GOOGLE.dialect(config)
    state, _ = read_state(weights, dialect, FAMILIES["vit"].model(config))
    back = {
        name: part
        for rule in dialect.rules
        for name, part in zip(rule.theirs, rule.write(state[rule.ours]), strict=True)
    }
    assert back.keys() == given.keys()
    assert all(np.array_equal(back[name].numpy(), array) for name, array in given.items())


def test_a_layer_before_the_head_is_left_out_and_said(tmp_path: Path):
    given = arrays(**SMALL) | {"pre_logits/kernel": np.zeros((24, 24), "f4"), "pre_logits/bias": np.zeros(24, "f4")}
    np.savez(tmp_path / "in21k.npz", **given)
    weights = open_weights(tmp_path / "in21k.npz")
    config = GOOGLE.settled(small_config(), weights)
    _, notes = read_state(weights, GOOGLE.dialect(config), FAMILIES["vit"].model(config))
    assert "trained behind pre_logits" in notes[0]
    assert "dropped what this model has no use for: pre_logits/" in notes[1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"Transformer/posembed_input/pos_embedding": np.zeros((1, 8, 192), "f4")}, "8 positions, which are no square"),
        ({"head/kernel": np.zeros((192, 7), "f4")}, "head/kernel has shape"),
        ({"embedding/kernel": np.zeros((8, 8, 3, 192), "f4")}, "embedding/kernel has shape"),
        ({"Transformer/encoderblock_12/LayerNorm_0/bias": np.zeros(192, "f4")}, "has unknown"),
        ({"head/bias": np.zeros((), "f4")}, "head/bias has shape"),
        ({"head/bias": np.array([None], dtype=object)}, "never opened"),
    ],
    ids=["positions", "head", "patch", "layer", "scalar", "pickle"],
)
def test_a_file_that_does_not_fit_is_refused_in_one_line(change: dict, said: str, tmp_path: Path):
    np.savez(tmp_path / "odd.npz", **arrays(**TI16) | change)
    with pytest.raises(ClearheadError, match=said) as refused:
        convert(tmp_path / "odd.npz", tmp_path / "folder", arch="vit-ti16")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "folder").exists()
