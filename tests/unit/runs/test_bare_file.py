"""A weights file without config.json: a name says what it is, the file says the rest."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import clearhead
from clearhead import ClearheadError
from tests.unit.runs import official
from tests.unit.runs.official import CONTEXT, GPT1_CONFIG, GPT2_CONFIG, LAYERS, VOCAB, WIDTH, drawn, write_folder

SMALL_GPT = {"width": WIDTH, "layers": LAYERS, "heads": 3, "vocab": VOCAB, "context": CONTEXT}
SMALL_VIT = {"width": WIDTH, "layers": LAYERS, "heads": 3, "patch": 4}
IDS = torch.tensor([[3, 1, 4, 1, 5]])


def file_with(folder: Path, tensors: dict[str, torch.Tensor]) -> Path:
    save_file(tensors, folder / "weights.safetensors")
    return folder / "weights.safetensors"


@pytest.mark.parametrize(
    ("arch", "config", "names"),
    [
        ("gpt2", GPT2_CONFIG, official.gpt2),
        ("gpt1", GPT1_CONFIG, official.gpt1),
    ],
)
def test_an_official_file_of_gpt_gives_the_same_model_as_its_folder(arch, config, names, tmp_path: Path):
    tensors = drawn(names())
    whole = clearhead.load(write_folder(tmp_path / "whole", config, tensors), device="cpu")
    model = clearhead.load(file_with(tmp_path, tensors), arch=arch, device="cpu", **SMALL_GPT)
    assert model.config == whole.config
    assert torch.equal(model(IDS), whole(IDS))


def test_a_file_beside_its_config_needs_no_name(tmp_path: Path):
    folder = write_folder(tmp_path, GPT2_CONFIG, drawn(official.gpt2()))
    assert clearhead.load(folder / "model.safetensors", device="cpu").config.width == WIDTH


def test_a_file_of_our_own_names_is_known_too(tmp_path: Path):
    made = clearhead.create("deck", seed=1, device="cpu")
    model = clearhead.load(file_with(tmp_path, made.state_dict()), arch="deck", device="cpu")
    assert torch.equal(model(IDS), made(IDS))


@pytest.mark.parametrize("names", [official.vit, official.timm_vit], ids=["hugging face", "timm"])
def test_a_vits_classes_and_its_square_image_are_read_off_the_file(names, tmp_path: Path):
    model = clearhead.load(file_with(tmp_path, drawn(names())), arch="vit-ti16", device="cpu", **SMALL_VIT)
    assert (model.config.image, model.config.num_classes, model.origin.notes) == ((12, 12), 3, ())


def test_an_image_asked_for_is_another_resolution_where_the_files_own_is_known(tmp_path: Path):
    path = file_with(tmp_path, drawn(official.timm_vit()))
    model = clearhead.load(path, arch="vit-ti16", image=8, num_classes=2, device="cpu", **SMALL_VIT)
    assert (model.config.image, model.config.num_classes) == ((8, 8), 2)
    assert len(model.origin.notes) == 2


def test_an_image_that_is_no_square_must_be_given_and_then_describes_the_file(tmp_path: Path):
    tensors = drawn(official.timm_vit()) | {"pos_embed": torch.randn(1, 7, WIDTH)}
    path = file_with(tmp_path, tensors)
    for image in (None, (8, 8)):
        with pytest.raises(ClearheadError, match=r"positions for 6 patches, which is no square: give image="):
            clearhead.load(path, arch="vit-ti16", device="cpu", **SMALL_VIT | ({"image": image} if image else {}))
    model = clearhead.load(path, arch="vit-ti16", image=(8, 12), device="cpu", **SMALL_VIT)
    assert (model.config.grid, model.origin.notes) == ((2, 3), ())
    assert torch.equal(model.input.positions.weight, tensors["pos_embed"][0])


def test_an_image_is_taken_as_given_where_the_file_holds_no_positions(tmp_path: Path):
    tensors = drawn(official.timm_vit())
    del tensors["pos_embed"]
    path = file_with(tmp_path, tensors)
    model = clearhead.load(path, arch="vit-ti16", image=20, positions="sinusoidal", device="cpu", **SMALL_VIT)
    assert model.config.image == (20, 20)
    assert model(torch.randn(1, 3, 20, 20)).shape == (1, 3)


def test_a_name_or_a_field_that_does_not_fit_is_told_in_one_line(tmp_path: Path):
    path = file_with(tmp_path, drawn(official.gpt2()))
    for options, message in (
        ({"arch": "gpt-2"}, "there is no model 'gpt-2'; did you mean 'gpt2'"),
        ({"arch": "vit-b16"}, "has no tensor that a vit model would have: name another arch"),
        ({"arch": "gpt2"}, "lacks transformer.h.10.attn.c_attn.bias"),
        ({"arch": "gpt2", "layers": LAYERS}, "has shape (11, 12), the config asks for (50257, 768)"),
        ({"arch": "gpt2", "layers": 4000}, "too few for layers = 4,000"),
        ({"arch": "gpt2", "n_layer": 2}, "GPTConfig has no field 'n_layer'; did you mean 'layers'"),
        ({"arch": "gpt2", **SMALL_GPT, "image": 32}, "GPTConfig has no field 'image'"),
    ):
        with pytest.raises(ClearheadError) as caught:
            clearhead.load(path, device="cpu", **options)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shape", [(1, 1, WIDTH), (1, 0, WIDTH), (WIDTH,), ()], ids=str)
def test_positions_of_no_sensible_shape_are_refused_in_one_line(shape, tmp_path: Path):
    path = file_with(tmp_path, drawn(official.timm_vit()) | {"pos_embed": torch.randn(shape)})
    with pytest.raises(ClearheadError):
        clearhead.load(path, arch="vit-ti16", device="cpu", **SMALL_VIT)


@pytest.mark.parametrize("shape", [(), (0, WIDTH)], ids=str)
def test_a_head_of_no_sensible_shape_is_refused_in_one_line(shape, tmp_path: Path):
    path = file_with(tmp_path, drawn(official.timm_vit()) | {"head.weight": torch.randn(shape)})
    with pytest.raises(ClearheadError):
        clearhead.load(path, arch="vit-ti16", device="cpu", **SMALL_VIT)
