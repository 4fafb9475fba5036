"""Pictures into rows: CCT's convolution against torch's own, and some patches of a picture instead of all."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from clearhead.layers import ConvolutionInput, LearnedPositions, PatchInput, SequencePooling
from clearhead.trace import Recorder
from tests.support import equal


def filled(module: nn.Module) -> nn.Module:
    for weight in module.parameters():
        nn.init.normal_(weight)
    return module


def test_the_convolutional_tokenizer_is_a_convolution_relu_and_max_pool():
    given, images = filled(ConvolutionInput(3, 5, None)), torch.randn(2, 3, 8, 12)
    kernel = given.project.weight.view(5, 3, 3, 3)
    by_torch = F.max_pool2d(F.conv2d(images, kernel, padding=1).relu(), 3, 2, 1)
    assert by_torch.shape == (2, 5, 4, 6)
    assert equal(given(images), by_torch.flatten(2).transpose(1, 2))


@pytest.mark.parametrize("class_token", [False, True])
def test_some_patches_are_the_same_rows_as_among_all(class_token):
    places = LearnedPositions(6 + class_token, 9)
    given = filled(PatchInput((4, 4), (4, 4), 3, 9, places, class_token=class_token))
    images, at = torch.randn(2, 3, 8, 12), torch.tensor([[5, 0, 3], [1, 2, 4]])
    whole, some = given(images), given(images, at)
    assert some.shape == (2, 3 + class_token, 9)
    for picture, chosen in enumerate(at.tolist()):
        rows = [0] * class_token + [patch + class_token for patch in chosen]
        assert equal(some[picture], whole[picture, rows])


def test_only_chosen_patches_are_projected():
    given, images = filled(PatchInput((4, 4), (4, 4), 3, 9, None, class_token=False)), torch.randn(2, 3, 8, 12)
    with Recorder(given) as trace:
        given(images, torch.tensor([[5, 0], [1, 2]]))
    assert trace["projected"].shape == (2, 2, 9)


def test_some_rows_of_a_convolution_are_taken_behind_it():
    given = filled(ConvolutionInput(3, 5, LearnedPositions(24, 5)))
    images, at = torch.randn(2, 3, 8, 12), torch.tensor([[23, 7], [0, 11]])
    whole = given(images)
    assert equal(given(images, at), torch.stack([whole[0, [23, 7]], whole[1, [0, 11]]]))


def test_the_positions_of_absent_patches_get_no_gradient():
    places = LearnedPositions(6, 9)
    given = filled(PatchInput((4, 4), (4, 4), 3, 9, places, class_token=False))
    given(torch.randn(2, 3, 8, 12), torch.tensor([[5, 0], [0, 2]])).sum().backward()
    assert places.weight.grad[:, 0].tolist() == [2.0, 0.0, 1.0, 0.0, 0.0, 1.0]


def test_sequence_pooling_is_a_mean_whose_weights_are_a_softmax_of_scores():
    pooling, rows = filled(SequencePooling(4)), torch.randn(3, 6, 4)
    scores = [[(row @ pooling.score.weight[0] + pooling.score.bias[0]).exp() for row in one] for one in rows]
    by_hand = torch.stack(
        [
            sum(s * row for s, row in zip(score, one, strict=True)) / sum(score)
            for score, one in zip(scores, rows, strict=True)
        ]
    )
    assert equal(pooling(rows), by_hand)
    assert not equal(pooling(rows), rows.mean(1), tolerance=1e-2)
