"""Attention as a filter: patches that are weighed by hand."""

import pytest
import torch

from clearhead.analyse import attention_maps, filtered_picture
from clearhead.errors import ClearheadError
from clearhead.models import create
from clearhead.tasks import record

FIELDS = {"image": 4, "channels": 1, "patch": 2, "width": 8, "heads": 2, "layers": 1, "num_classes": 3}


def config(**changes: object):
    return create("vit-ti16", device="cpu", seed=0, **FIELDS | changes).config


def test_each_patch_becomes_the_weighted_mean_of_all_and_what_lies_on_cls_is_left_out():
    """The first patch looks at the second and [CLS], half and half; the second at itself and the last, .6 and .2."""
    image = torch.arange(16.0).view(1, 4, 4)
    weights = torch.eye(5)
    weights[1] = torch.tensor([0.5, 0.0, 0.5, 0.0, 0.0])
    weights[2] = torch.tensor([0.2, 0.0, 0.6, 0.0, 0.2])
    found = filtered_picture(image, weights, config())[0]
    patch = lambda r, c: image[0, 2 * r : 2 * r + 2, 2 * c : 2 * c + 2]  # noqa: E731
    assert torch.equal(found[:2, :2], patch(0, 1))
    assert torch.allclose(found[:2, 2:], 0.75 * patch(0, 1) + 0.25 * patch(1, 1))
    assert torch.equal(found[2:, :2], patch(1, 0)) and torch.equal(found[2:, 2:], patch(1, 1))


def test_a_head_that_looks_everywhere_alike_makes_every_patch_the_mean_of_all():
    image = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(1))
    found = filtered_picture(image, torch.full((4, 4), 0.25), config(channels=3, pooling="mean"))
    mean = torch.stack([image[:, r : r + 2, c : c + 2] for r in (0, 2) for c in (0, 2)]).mean(0)
    assert torch.allclose(found, mean.repeat(1, 2, 2), atol=1e-6)


def test_on_a_real_pass_it_is_the_product_that_the_model_would_make_with_pixels_for_values():
    model = create("vit-ti16", device="cpu", seed=0, **FIELDS)
    image = torch.randn(1, 1, 4, 4, generator=torch.Generator().manual_seed(2))
    trace = record(model, (image,))
    weights = attention_maps(trace)[0].weights[1]
    values = weights[1:, 1:] / weights[1:, 1:].sum(-1, keepdim=True) @ trace["input.patches"][0]
    rows = values.view(2, 2, 2, 2).permute(0, 2, 1, 3).reshape(4, 4)
    assert torch.allclose(filtered_picture(image[0], weights, model.config)[0], rows, atol=1e-5)


def test_weights_of_another_model_are_refused():
    with pytest.raises(ClearheadError, match=r"a ViT of 5 tokens has weights \(5, 5\), not \(4, 4\)"):
        filtered_picture(torch.zeros(1, 4, 4), torch.eye(4), config())
