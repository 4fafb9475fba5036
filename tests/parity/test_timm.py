"""ViT against timm: logits and the attention weights of every layer, from its state dicts and from its folders."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import clearhead
from clearhead import ClearheadError
from clearhead.models import Model, find
from clearhead.runs import preprocessor
from clearhead.runs.adapt import interpolated
from tests.support import equal, peer

timm = peer("timm")

SMALL = {"embed_dim": 21, "depth": 2, "num_heads": 3, "img_size": 12, "patch_size": 4, "num_classes": 5}
OURS = {"width": 21, "layers": 2, "heads": 3, "patch": 4}


def built(name: str = "vit_tiny_patch16_224", std: float = 0.3, **arguments: Any) -> nn.Module:
    """timm's model with every weight drawn anew, biases, norms, [CLS] and positions too."""
    model = timm.create_model(name, **arguments)
    with torch.no_grad():
        for weight_name, weight in model.named_parameters():
            weight.normal_(1.0 if "norm" in weight_name and weight_name.endswith("weight") else 0.0, std)
    return model.eval()


@contextmanager
def attention_of(model: nn.Module) -> Iterator[list[Tensor]]:
    """Their softmax written out: with fused attention off it is what goes into the dropout of each layer."""
    seen: list[Tensor] = []
    hooks = []
    for block in model.blocks:
        block.attn.fused_attn = False
        hooks.append(block.attn.attn_drop.register_forward_pre_hook(lambda _, given: seen.append(given[0])))
    yield seen
    for hook in hooks:
        hook.remove()


def assert_same(model: Model, theirs: nn.Module) -> None:
    """Ours gives their numbers, recorded and on the fused path."""
    images = torch.randn(2, model.config.channels, *model.config.image)
    with torch.no_grad(), attention_of(theirs) as attentions:
        logits = theirs(images)
    trace = clearhead.record(model, images, sites="*.attention.weights")
    with torch.no_grad():
        assert equal(model(images), logits)
    assert equal(trace.output, logits)
    for layer, (mine, other) in enumerate(zip(trace.values.values(), attentions, strict=True)):
        assert equal(mine, other), f"layer {layer}"


def file_of(theirs: nn.Module, folder: Path) -> Path:
    path = folder / "weights.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in theirs.state_dict().items()}, path)
    return path


def drawn(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """(timm's arguments, what `load` must be told of them): odd sizes and the arithmetic drawn at random."""
    roll = random.Random(seed)
    heads, patch = roll.choice([1, 2, 3, 5]), roll.choice([2, 3, 5])
    rows, columns = (roll.choice([1, 2, 4]), roll.choice([2, 3])) if seed % 2 else (3, 3)
    width, ratio = heads * roll.choice([4, 7, 12]), roll.choice([1, 2, 4])
    told = {
        "width": width,
        "layers": roll.choice([1, 2, 3]),
        "heads": heads,
        "patch": patch,
        "channels": roll.choice([1, 3, 4]),
        "ff": ratio * width,
        "qkv_bias": roll.random() < 0.5,
    }
    given = {
        "img_size": (rows * patch, columns * patch),
        "patch_size": patch,
        "in_chans": told["channels"],
        "embed_dim": width,
        "depth": told["layers"],
        "num_heads": heads,
        "mlp_ratio": ratio,
        "qkv_bias": told["qkv_bias"],
        "num_classes": roll.choice([1, 2, 11]),
    }
    if roll.random() < 0.5:
        told |= {"pooling": "mean", "final_norm": "pooled"}
        given |= {"class_token": False, "global_pool": "avg"}
    return given, told | ({"image": given["img_size"]} if rows != columns else {})


@pytest.mark.parametrize("seed", range(12))
def test_a_state_dict_of_any_arithmetic_gives_their_logits_and_weights(seed: int, tmp_path: Path):
    given, told = drawn(seed)
    theirs = built(**given)
    model = clearhead.load(file_of(theirs, tmp_path), arch="vit-ti16", device="cpu", **told)
    assert model.origin.notes == ()
    assert_same(model, theirs)


def ordinary(arch: str) -> float:
    """A spread that keeps scores of ordinary size: wide models with larger ones turn rounding into other weights."""
    return find(arch)[1].width ** -0.5


def test_a_published_size_in_full_gives_their_logits_and_weights(tmp_path: Path):
    theirs = built("vit_base_patch16_224", ordinary("vit-b16"))
    model = clearhead.load(file_of(theirs, tmp_path), arch="vit-b16", device="cpu")
    assert model.config == find("vit-b16")[1]
    assert_same(model, theirs)


@pytest.mark.large
@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("vit_tiny_patch16_224", "vit-ti16"),
        ("vit_small_patch16_224", "vit-s16"),
        ("vit_base_patch32_224", "vit-b32"),
        ("vit_large_patch16_224", "vit-l16"),
        ("vit_huge_patch14_224", "vit-h14"),
    ],
)
def test_the_other_published_sizes_in_full_give_their_logits_and_weights(name: str, arch: str, tmp_path: Path):
    theirs = built(name, ordinary(arch), num_classes=1000)  # their largest comes without a head
    path = file_of(theirs, tmp_path)
    try:
        assert_same(clearhead.load(path, arch=arch, device="cpu"), theirs)
    finally:
        path.unlink()  # pytest would keep gigabytes


@pytest.mark.parametrize("safe", [True, False], ids=["safetensors", "bin"])
@pytest.mark.parametrize("pooled", [{}, {"class_token": False, "global_pool": "avg"}], ids=["token", "avg"])
def test_a_folder_that_timm_wrote_loads_by_itself(pooled: dict[str, Any], safe: bool, tmp_path: Path):
    theirs = built(**SMALL, **pooled)
    timm.models.save_for_hf(theirs, tmp_path, model_args=SMALL | pooled, safe_serialization=safe)
    model = clearhead.load(tmp_path, device="cpu")
    assert model.config.pooling == ("mean" if pooled else "cls")
    assert_same(model, theirs)


def test_a_folder_that_timm_wrote_brings_its_preprocessor_at_the_models_resolution(tmp_path: Path):
    timm.models.save_for_hf(built(**SMALL), tmp_path, model_args=SMALL)
    made = preprocessor(clearhead.load(tmp_path, device="cpu"))
    assert made.resample == "bicubic"  # pretrained_cfg says so; the plain preprocessor is bilinear
    assert made.shape == (12, 12)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"global_pool": "avg"}, "global_pool 'avg' with class_token True"),
        ({"global_pool": "map"}, "global_pool 'map'"),
        ({"global_pool": ""}, "global_pool ''"),
        ({"init_values": 1e-5}, "'init_values' = 1e-05"),
        ({"reg_tokens": 4}, "'reg_tokens' = 4"),
        ({"pre_norm": True}, "'pre_norm' = True"),
        ({"qk_norm": True}, "'qk_norm' = True"),
    ],
)
def test_arithmetic_of_theirs_that_is_not_built_is_refused_by_name(arguments: dict, named: str, tmp_path: Path):
    theirs = built(**SMALL, **arguments)
    timm.models.save_for_hf(theirs, tmp_path, model_args=SMALL | arguments, safe_serialization=True)
    with pytest.raises(ClearheadError, match=named):
        clearhead.load(tmp_path, device="cpu")


@pytest.mark.parametrize("name", ["vit_base_patch16_clip_224", "vit_base_patch16_rope_224", "resnet50", "vit_so150m"])
def test_an_architecture_of_theirs_that_is_no_plain_vit_is_refused_by_name(name: str, tmp_path: Path):
    timm.models.save_for_hf(built(**SMALL), tmp_path, model_config={"architecture": name}, safe_serialization=True)
    with pytest.raises(ClearheadError, match=f"architecture '{name}' is not a plain ViT"):
        clearhead.load(tmp_path, device="cpu")


def test_a_bare_file_says_its_classes_and_its_resolution_by_itself(tmp_path: Path):
    path = file_of(built(**SMALL), tmp_path)
    config = clearhead.load(path, arch="vit-ti16", device="cpu", **OURS).config
    assert (config.num_classes, config.image) == (5, (12, 12))


@pytest.mark.parametrize("image", [20, (8, 16), 4], ids=str)
@pytest.mark.parametrize("pooled", [{}, {"class_token": False, "global_pool": "avg"}], ids=["token", "avg"])
def test_another_resolution_interpolates_positions_as_timm_does(image: Any, pooled: dict[str, Any], tmp_path: Path):
    """timm's own resampling is what `set_input_size` calls, so its model at the new resolution is the answer."""
    theirs = built(**SMALL, **pooled)
    told = {"pooling": "mean", "final_norm": "pooled"} if pooled else {}
    model = clearhead.load(file_of(theirs, tmp_path), arch="vit-ti16", image=image, device="cpu", **OURS, **told)
    theirs.set_input_size(img_size=image)
    assert equal(model.input.positions.weight, theirs.pos_embed[0])
    assert_same(model, theirs)
    assert any(note.startswith("positions interpolated from 3 x 3 to ") for note in model.origin.notes)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("prefix", [0, 1])
def test_interpolated_positions_equal_their_function_bit_for_bit(prefix: int, kind: torch.dtype):
    resample = peer("timm.layers").resample_abs_pos_embed
    table = torch.randn(prefix + 4 * 6, 10).to(kind)
    for size in ((8, 8), (3, 5), (1, 1), (7, 6)):
        theirs = resample(table[None], list(size), [4, 6], num_prefix_tokens=prefix)[0]
        assert torch.equal(interpolated(table, (4, 6), size), theirs)


def test_another_number_of_classes_gets_a_new_head_and_the_rest_is_theirs(tmp_path: Path):
    theirs = built(**SMALL)
    path = file_of(theirs, tmp_path)
    model = clearhead.load(path, arch="vit-ti16", num_classes=7, device="cpu", **OURS)
    images = torch.randn(2, 3, 12, 12)
    with torch.no_grad():
        assert equal(model.hidden(images), theirs.forward_head(theirs.forward_features(images), pre_logits=True))
        assert torch.equal(model(images), torch.zeros(2, 7))
    assert model.origin.notes == ("a new head of zeros for 7 classes (the file's has 5)",)


def test_a_file_without_a_head_asks_for_the_number_of_classes(tmp_path: Path):
    path = file_of(built(**SMALL | {"num_classes": 0}), tmp_path)
    with pytest.raises(ClearheadError, match="no classification head: give num_classes"):
        clearhead.load(path, arch="vit-ti16", device="cpu", **OURS)
    for classes in (3, 1000):
        model = clearhead.load(path, arch="vit-ti16", num_classes=classes, device="cpu", **OURS)
        assert model.origin.notes == (f"a new head of zeros for {classes} classes (the file has none)",)


def test_a_folder_of_theirs_without_a_head_asks_for_the_number_of_classes(tmp_path: Path):
    headless = SMALL | {"num_classes": 0}
    timm.models.save_for_hf(built(**headless), tmp_path, model_args=headless, safe_serialization=True)
    with pytest.raises(ClearheadError, match="no classification head: give num_classes"):
        clearhead.load(tmp_path, device="cpu")
    assert clearhead.load(tmp_path, num_classes=3, device="cpu").config.num_classes == 3
