"""Mean attention distance against figures computed by hand."""

import math

import pytest
import torch

from clearhead.analyse import AttentionMap, attention_distances, patch_centres, pixel_distance, token_distance
from clearhead.errors import ClearheadError
from clearhead.models.vit import ViTConfig

PICTURE = ViTConfig(image=(4, 6), patch=2, width=8, heads=1)  # 2 x 3 patches


def of(weights: list) -> AttentionMap:
    tensor = torch.tensor(weights)
    names = [tuple(map(str, range(count))) for count in tensor.shape[1:]]
    return AttentionMap("encoder.blocks.0.attention.weights", 0, tensor, *names)


def test_tokens_are_as_far_as_their_places():
    """Head 1 looks two to the left, one to the left, at itself: in the mean 0 + 1 + 2 over 3. Head 2 at itself."""
    first = [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    halves = [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.25, 0.0, 0.75]]  # .5, 0, .5
    assert token_distance(of([first, halves])).tolist() == pytest.approx([1.0, 1 / 3])


def test_patches_are_as_far_as_their_centres():
    assert patch_centres(PICTURE).tolist() == [[0.5, 0.5], [0.5, 2.5], [0.5, 4.5], [2.5, 0.5], [2.5, 2.5], [2.5, 4.5]]
    weights = torch.zeros(1, 7, 7)
    weights[0, 0, 0] = 1.0  # [CLS] looks at itself: it is left out
    weights[0, 1:, 1] = 1.0  # all patches look at the first
    expected = (0 + 2 + 4 + 2 + math.sqrt(8) + math.sqrt(20)) / 6
    assert pixel_distance(of(weights.tolist()), PICTURE).item() == pytest.approx(expected)


def test_what_goes_to_the_class_token_does_not_count():
    """Half to [CLS], a quarter each to itself and its right neighbour: 2 pixels, half the time."""
    config = ViTConfig(image=(2, 4), patch=2, width=8, heads=1)
    rows = [[1.0, 0.0, 0.0], [0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]  # the last looks at [CLS] alone
    assert pixel_distance(of([rows]), config).item() == pytest.approx(1.0)


def test_overlapping_patches_are_a_stride_apart_and_mean_pooling_has_no_class_token():
    config = ViTConfig(image=(4, 6), patch=4, stride=(4, 1), width=8, heads=1, pooling="mean")
    weights = torch.zeros(1, 3, 3)
    weights[0, :, 0] = 1.0
    assert pixel_distance(of(weights.tolist()), config).item() == pytest.approx((0 + 1 + 2) / 3)


def test_all_layers_make_a_table():
    even = of([[[0.5, 0.5], [0.5, 0.5]]])
    own = of([[[1.0, 0.0], [0.0, 1.0]]])
    assert attention_distances([even, own]).tolist() == [[0.5], [0.0]]


def test_bad_requests_are_refused_in_one_line():
    with pytest.raises(ClearheadError, match="looks from 1 tokens at 2 others"):
        token_distance(of([[[0.5, 0.5]]]))
    with pytest.raises(ClearheadError, match="a ViT of 7 tokens has weights"):
        pixel_distance(of([[[1.0]]]), PICTURE)
    with pytest.raises(ClearheadError, match="no attention maps"):
        attention_distances([])
