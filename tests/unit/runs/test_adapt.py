"""Loading into a slightly different model: what can be fitted is fitted and said, the rest is refused by name."""

import logging
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead import ClearheadError
from tests.unit.runs import official
from tests.unit.runs.official import GPT2_CONFIG, VIT_CONFIG, drawn, write_folder


@pytest.fixture
def vit_folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "vit", VIT_CONFIG, drawn(official.vit()))


@pytest.fixture
def gpt_folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "gpt", GPT2_CONFIG, drawn(official.gpt2()))


def test_other_classes_get_a_head_of_zeros_and_the_rest_is_the_files(vit_folder: Path, caplog):
    with caplog.at_level(logging.WARNING, "clearhead"):
        model = clearhead.load(vit_folder, num_classes=7, device="cpu")
    said = "a new head of zeros for 7 classes (the file's has 3)"
    assert model.origin.notes == (said,)
    assert caplog.messages == [f"{vit_folder}: {said}"]
    assert model.output.weight.shape == (7, 12)
    assert not model.output.weight.any() and not model.output.bias.any()
    plain = clearhead.load(vit_folder, device="cpu")
    images = torch.randn(2, 3, 12, 12)
    assert torch.equal(model.hidden(images), plain.hidden(images))


def test_another_resolution_interpolates_the_patches_positions_and_keeps_that_of_cls(vit_folder: Path):
    model = clearhead.load(vit_folder, image=(16, 24), device="cpu")
    assert model.origin.notes == ("positions interpolated from 3 x 3 to 4 x 6 patches",)
    assert model.input.positions.weight.shape == (1 + 24, 12)
    plain = clearhead.load(vit_folder, device="cpu")
    assert torch.equal(model.input.positions.weight[0], plain.input.positions.weight[0])
    assert model(torch.randn(2, 3, 16, 24)).shape == (2, 3)


def test_rotary_positions_that_reach_further_than_learnt_are_said_with_what_keeps_them(tmp_path: Path):
    sizes = {"image": 12, "patch": 4, "width": 12, "layers": 1, "heads": 1, "positions": "none", "rotary_base": 100.0}
    clearhead.save(clearhead.create("vit-ti16", device="cpu", seed=0, **sizes), tmp_path)
    said = "rotary positions count 6 x 6 patches, and were learnt for 3 x 3: rotary_span=3 keeps near and far"
    assert clearhead.load(tmp_path, image=24, device="cpu").origin.notes == (f"{said} where they were",)
    assert clearhead.load(tmp_path, image=24, rotary_span=3, device="cpu").origin.notes == ()


def test_both_at_once_are_both_said(vit_folder: Path):
    model = clearhead.load(vit_folder, image=20, num_classes=2, device="cpu")
    assert [note.split()[0] for note in model.origin.notes] == ["positions", "a"]


def test_the_same_values_change_nothing_and_say_nothing(vit_folder: Path):
    model = clearhead.load(vit_folder, image=12, num_classes=3, device="cpu")
    assert model.origin.notes == ()
    assert torch.equal(model.output.weight, drawn(official.vit())["classifier.weight"])


def test_what_needs_no_weights_may_change(gpt_folder: Path):
    model = clearhead.load(gpt_folder, dropout=0.5, activation="relu", device="cpu")
    assert (model.config.dropout, model.config.activation) == (0.5, "relu")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 1}, "layers = 1 does not fit these weights: decoder.blocks.1."),
        ({"layers": 3}, "layers = 3 does not fit these weights: decoder.blocks.2."),
        ({"context": 9}, "input.positions.weight would have shape (9, 12), not (8, 12)"),
        ({"vocab": 12}, "input.tokens.weight would have shape (12, 12), not (11, 12)"),
        ({"tied": False}, "output.weight would have shape (11, 12), not None"),
        ({"width": 15, "heads": 5}, "width = 15, heads = 5 does not fit these weights"),
        ({"heads": 5}, "5 heads don't divide a width of 12"),
        ({"layer": 1}, "GPTConfig has no field 'layer'; did you mean 'layers'"),
        ({"num_classes": 3}, "GPTConfig has no field 'num_classes'"),
    ],
    ids=str,
)
def test_a_change_that_needs_other_weights_is_refused_by_name(change, message, gpt_folder: Path):
    with pytest.raises(ClearheadError) as caught:
        clearhead.load(gpt_folder, device="cpu", **change)
    assert message in str(caught.value)


@pytest.mark.parametrize("change", [{"patch": 2}, {"pooling": "mean"}, {"qkv_bias": False}, {"channels": 1}], ids=str)
def test_a_vit_of_other_weights_is_refused_by_name(change, vit_folder: Path):
    with pytest.raises(ClearheadError, match="does not fit these weights: "):
        clearhead.load(vit_folder, device="cpu", **change)
