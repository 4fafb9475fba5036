"""Attention maps against cases that are computed by hand."""

import pytest
import torch

from clearhead.analyse import attention_maps, over_pixels, patch_maps, patch_names
from clearhead.errors import ClearheadError
from clearhead.models import create
from clearhead.models.vit import ViTConfig
from clearhead.tasks import record
from clearhead.trace import Trace

FIRST = [[[1.0, 0.0], [0.25, 0.75]], [[1.0, 0.0], [0.75, 0.25]]]  # two heads, two tokens
SECOND = [[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]]
MASKED = [[[0.3, -torch.inf], [0.1, 0.2]], [[0.3, -torch.inf], [0.1, 0.2]]]


def by_hand() -> Trace:
    values = {
        "decoder.blocks.10.attention.weights": torch.tensor([SECOND]),
        "decoder.blocks.2.attention.weights": torch.tensor([FIRST]),
        "decoder.blocks.2.attention.masked": torch.tensor([MASKED]),
        "decoder.blocks.2.attention.scores": torch.zeros(1, 2, 2, 2),
    }
    return Trace(values, about={"tokens": ["the", "cat"]})


def test_maps_come_by_layer_with_heads_and_the_names_of_the_tokens():
    low, high = attention_maps(by_hand())
    assert (low.layer, high.layer) == (2, 10)
    assert low.weights.tolist() == FIRST and high.weights.tolist() == SECOND
    assert low.rows == low.columns == ("the", "cat")
    assert low.mean.tolist() == [[1.0, 0.0], [0.5, 0.5]]
    assert high.mean.tolist() == [[1.0, 0.0], [0.25, 0.75]]


def test_what_was_masked_is_known_where_it_was_recorded():
    low, high = attention_maps(by_hand())
    assert low.masked is not None and low.masked.tolist() == [[False, True], [False, False]]
    assert high.masked is None


def test_a_row_is_where_one_token_looks_in_every_head():
    row = attention_maps(by_hand())[0].row(-1)
    assert row.of == "cat" and row.columns == ("the", "cat")
    assert row.weights.tolist() == [[0.25, 0.75], [0.75, 0.25]]
    assert row.mean.tolist() == [0.5, 0.5]


def test_cross_attention_has_the_target_as_rows_and_the_source_as_columns():
    values = {
        "encoder.blocks.0.attention.weights": torch.full((1, 1, 3, 3), 1 / 3),
        "decoder.blocks.0.cross.weights": torch.tensor([[[[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]]]]),
    }
    trace = Trace(values, about={"source_tokens": ["das", "ist", "gut"], "target_tokens": ["<s>", "this"]})
    (cross,) = attention_maps(trace, "cross")
    assert cross.rows == ("<s>", "this") and cross.columns == ("das", "ist", "gut")
    assert attention_maps(trace, "encoder")[0].columns == ("das", "ist", "gut")
    with pytest.raises(ClearheadError, match="say which attention is wanted; the trace has encoder, cross"):
        attention_maps(trace)
    with pytest.raises(ClearheadError, match="no attention weights of kind 'decoder'; it has encoder, cross"):
        attention_maps(trace, "decoder")


def test_a_gpt_without_queries_looks_at_all_before_it_alike():
    model = create("gpt2", vocab=7, context=6, width=8, layers=2, heads=2, seed=0, device="cpu")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "qkv" in name:
                weight.zero_()
    trace = record(model, torch.tensor([[1, 2, 3], [4, 5, 6]]), sites="*.attention.weights")
    expected = torch.tensor([[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]])
    for one in attention_maps(trace, item=1, rows=["a", "b", "c"]):
        assert torch.allclose(one.weights, expected.expand(2, 3, 3))
        assert one.rows == one.columns == ("a", "b", "c")
    assert attention_maps(trace)[0].rows == ("0", "1", "2")
    with pytest.raises(ClearheadError, match="has 3 rows, and 2 names were given"):
        attention_maps(trace, rows=["a", "b"])
    with pytest.raises(ClearheadError, match="holds 2 inputs: there is no number 2"):
        attention_maps(trace, item=2)


def test_a_trace_without_weights_says_what_to_record():
    with pytest.raises(ClearheadError, match=r"none: record '\*.weights'"):
        attention_maps(Trace({"logits": torch.zeros(1)}))


def test_the_class_token_s_row_lies_over_the_patches():
    config = ViTConfig(image=(4, 6), patch=2, width=8, heads=2)
    weights = torch.arange(2 * 7 * 7).float().reshape(2, 7, 7)
    assert patch_names(config) == ("[CLS]", "1,1", "1,2", "1,3", "2,1", "2,2", "2,3")
    assert patch_maps(weights, config).tolist() == [[[1, 2, 3], [4, 5, 6]], [[50, 51, 52], [53, 54, 55]]]


def test_with_mean_pooling_it_is_the_mean_of_all_rows():
    config = ViTConfig(image=(2, 4), patch=2, width=8, heads=2, pooling="mean")
    weights = torch.tensor([[[0.25, 0.75], [0.75, 0.25]], [[1.0, 0.0], [0.5, 0.5]]])
    assert patch_names(config) == ("1,1", "1,2")
    assert patch_maps(weights, config).tolist() == [[[0.5, 0.5]], [[0.75, 0.25]]]


def test_weights_of_another_size_are_refused():
    with pytest.raises(ClearheadError, match="a ViT of 7 tokens has weights"):
        patch_maps(torch.zeros(2, 6, 6), ViTConfig(image=(4, 6), patch=2, width=8, heads=2))


def test_every_pixel_has_the_value_of_its_patch():
    config = ViTConfig(image=(2, 4), patch=2, width=8, heads=2)
    assert over_pixels(torch.tensor([[1.0, 3.0]]), config).tolist() == [[1, 1, 3, 3], [1, 1, 3, 3]]


def test_where_patches_overlap_a_pixel_has_their_mean():
    config = ViTConfig(image=(2, 4), patch=2, stride=(2, 1), width=8, heads=2)
    row = [1, 2, 4, 5]  # patches of 1, 3 and 5: pixels 1, (1 + 3) / 2, (3 + 5) / 2, 5
    assert over_pixels(torch.tensor([[1.0, 3.0, 5.0]]), config).tolist() == [row, row]


def test_the_maps_of_a_real_vit_sum_to_what_is_not_kept_by_the_class_token():
    model = create("vit-ti16", image=8, patch=4, channels=1, width=12, heads=3, layers=2, seed=0, device="cpu")
    trace = record(model, torch.rand(1, 1, 8, 8), sites="*.attention.weights")
    for one in attention_maps(trace, rows=patch_names(model.config)):
        maps = patch_maps(one.weights, model.config)
        assert maps.shape == (3, 2, 2)
        assert torch.allclose(maps.sum((1, 2)), 1 - one.weights[:, 0, 0])
