"""Every published size, counted exactly and without memory, beside the figure that paper or deck prints."""

import pytest
import torch

from clearhead.models import create, find, list_models

COUNTS = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "gpt-nano": 85_584,
    "gpt1": 116_534_784,
    "gpt3": 174_604_259_328,
    "vit-ti16": 5_717_416,
    "vit-s16": 22_050_664,
    "vit-b16": 86_567_656,
    "vit-b32": 88_224_232,
    "vit-l16": 304_326_632,
    "vit-h14": 632_045_800,
    "vit-c10": 9_509_130,
    "cct-7-3x1": 3_760_139,
}
PRINTED = {
    "gpt1": "117M",
    "gpt2": "117M",
    "gpt2-medium": "345M",
    "gpt2-large": "762M",
    "gpt2-xl": "1542M",
    "gpt3": "175B",
    "vit-b16": "86M",
    "vit-l16": "307M",
    "vit-h14": "632M",
    "cct-7-3x1": "3.76M",
}
GPT_WIDTHS = {"gpt2": 768, "gpt2-medium": 1024, "gpt2-large": 1280, "gpt2-xl": 1600, "gpt-nano": 48, "gpt3": 12288}
VIT_TABLE = {"vit-b16": (12, 768, 3072, 12), "vit-l16": (24, 1024, 4096, 16), "vit-h14": (32, 1280, 5120, 16)}


@pytest.mark.parametrize("name", COUNTS)
def test_the_true_count_is_exact(name):
    model = create(name, device="meta")
    assert model.parameter_count == COUNTS[name]
    assert all(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))


def test_the_list_shows_the_true_count_and_the_printed_figure():
    entries = {entry.name: entry for entry in list_models()}
    assert {name: entries[name].params for name in COUNTS} == COUNTS
    assert {name: entries[name].paper for name in COUNTS if entries[name].paper is not None} == PRINTED


def test_counting_asks_for_no_memory(monkeypatch):
    monkeypatch.setattr(torch.nn.Module, "to_empty", lambda *_, **__: pytest.fail("allocated"))
    list_models.cache_clear()
    assert max(entry.params for entry in list_models()) == COUNTS["gpt3"]


@pytest.mark.parametrize(("name", "width"), GPT_WIDTHS.items())
def test_gpts_have_the_widths_of_the_decks(name, width):
    assert find(name)[1].width == width


@pytest.mark.parametrize(("name", "sizes"), VIT_TABLE.items())
def test_vits_have_the_layers_hidden_mlp_and_heads_of_the_paper(name, sizes):
    model = create(name, device="meta")
    up = model.encoder.blocks[0].feed_forward.up
    assert (len(model.encoder.blocks), up.in_features, up.out_features, model.config.heads) == sizes


def test_nano_gpt_sorts_three_letters_in_eleven_places_with_three_layers_of_three_heads():
    config = find("gpt-nano")[1]
    assert (config.vocab, config.context, config.layers, config.heads, config.tied) == (3, 11, 3, 3, True)


def test_every_second_layer_of_gpt3_is_banded():
    windows = [block.attention.window for block in create("gpt3", device="meta").decoder.blocks]
    assert windows == [None, 256] * 48
