"""An image in the lecture's numbers: 3 x 224 x 224 in patches of 16 is 196 rows of 768, with [CLS] 197 x 768."""

import pytest
import torch

from clearhead.models import create
from clearhead.trace import Recorder
from tests.support import equal


@pytest.fixture(scope="module")
def model():
    return create("vit-b16", device="cpu", seed=0, layers=1)


@pytest.fixture(scope="module")
def image():
    return torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def trace(model, image):
    with Recorder(model, ["input.*", "*.weights", "pooled", "logits"]) as trace, torch.no_grad():
        model(image)
    return trace


def test_196_patches_of_768_become_197_rows_of_768_and_1000_classes(trace):
    assert trace["input.patches"].shape == (1, 196, 768)
    assert trace["input.projected"].shape == (1, 196, 768)
    for site in ("input.tokens", "input.summed"):
        assert trace[site].shape == (1, 197, 768)
    assert trace["input.positions"].shape == (197, 768)
    assert trace["encoder.blocks.0.attention.weights"].shape == (1, 12, 197, 197)
    assert trace["pooled"].shape == (1, 768)
    assert trace["logits"].shape == (1, 1000)


def test_a_patch_is_sixteen_by_sixteen_pixels_of_three_channels_flattened(trace, image):
    assert torch.equal(trace["input.patches"][0, 0], image[0, :, :16, :16].flatten())
    assert torch.equal(trace["input.patches"][0, 15], image[0, :, 16:32, 16:32].flatten())
    assert torch.equal(trace["input.patches"][0, 195], image[0, :, 208:, 208:].flatten())


def test_the_class_token_stands_in_front_and_positions_are_added(model, trace):
    assert torch.equal(trace["input.tokens"][0, 0], model.input.class_token)
    assert torch.equal(trace["input.tokens"][:, 1:], trace["input.projected"])
    assert equal(trace["input.summed"], trace["input.tokens"] + model.input.positions.weight)


def test_the_class_tokens_row_alone_gives_the_same_classes(model, image):
    """Unrecorded, the last block answers for [CLS] alone; recorded, for every token."""
    with torch.no_grad():
        shortened = model.hidden(image)
        whole = model.tokens(image)[:, 0]
    assert equal(shortened, whole)


@pytest.mark.parametrize("changes", [{}, {"positions": "sinusoidal-2d"}, {"positions": "none"}, {"stride": 2}], ids=str)
def test_a_vit_for_32_pixels_reads_the_mean_of_its_patches(changes):
    model = create("vit-c10", device="cpu", seed=0, layers=1, **changes)
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        tokens, hidden = model.tokens(images), model.hidden(images)
    assert tokens.shape == (2, 225 if "stride" in changes else 64, 256)
    assert equal(hidden, tokens.mean(1))


def test_without_positions_the_order_of_the_patches_is_not_seen():
    images = torch.randn(1, 3, 32, 32)
    swapped = torch.cat([images[..., 16:], images[..., :16]], -1)
    outputs = {}
    for positions in ("none", "learned"):
        model = create("vit-c10", device="cpu", seed=0, layers=1, positions=positions)
        with torch.no_grad():
            outputs[positions] = model.hidden(images), model.hidden(swapped)
    assert equal(*outputs["none"])
    assert not equal(*outputs["learned"], tolerance=1e-3)
