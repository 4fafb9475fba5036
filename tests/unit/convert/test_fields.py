"""config.json in Hugging Face's form: every field that changes the arithmetic is honoured or named in an error."""

import json
from typing import Any

import pytest

from clearhead.convert.fields import ACTIVATIONS_IN, ACTIVATIONS_OUT
from clearhead.convert.formats import HUGGING_FACE, recognise
from clearhead.convert.gpt import GPT1Format, GPT2Format
from clearhead.convert.vit import HuggingFaceViT
from clearhead.errors import ClearheadError
from clearhead.models import find
from clearhead.models.gpt import SIZES as GPT_SIZES
from clearhead.models.gpt import GPTConfig
from clearhead.models.vit import SIZES as VIT_SIZES
from clearhead.models.vit import ViTConfig
from clearhead.ops import ACTIVATIONS

SUMMARY = {
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
}
DROPOUTS = {"attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1}

# The fields of the config.json files on the hub, by what transformers printed of them over the years: the first of
# 2019 already carry names that no later version writes (n_ctx, n_special, predict_special_tokens, output_past).
OFFICIAL: dict[str, dict[str, Any]] = {
    "gpt2": {
        "activation_function": "gelu_new",
        "architectures": ["GPT2LMHeadModel"],
        "bos_token_id": 50256,
        "eos_token_id": 50256,
        "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05,
        "model_type": "gpt2",
        "n_ctx": 1024,
        "n_embd": 768,
        "n_head": 12,
        "n_layer": 12,
        "n_positions": 1024,
        "vocab_size": 50257,
        **DROPOUTS,
        **SUMMARY,
    },
    "gpt1": {
        "afn": "gelu",
        "architectures": ["OpenAIGPTLMHeadModel"],
        "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05,
        "model_type": "openai-gpt",
        "n_ctx": 512,
        "n_embd": 768,
        "n_head": 12,
        "n_layer": 12,
        "n_positions": 512,
        "n_special": 0,
        "predict_special_tokens": True,
        "vocab_size": 40478,
        **DROPOUTS,
        **SUMMARY,
    },
    "vit-b16": {
        "_name_or_path": "google/vit-base-patch16-224-in21k",
        "architectures": ["ViTForImageClassification"],
        "attention_probs_dropout_prob": 0.0,
        "encoder_stride": 16,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "hidden_size": 768,
        "id2label": {str(n): f"class {n}" for n in range(1000)},
        "image_size": 224,
        "initializer_range": 0.02,
        "intermediate_size": 3072,
        "label2id": {f"class {n}": n for n in range(1000)},
        "layer_norm_eps": 1e-12,
        "model_type": "vit",
        "num_attention_heads": 12,
        "num_channels": 3,
        "num_hidden_layers": 12,
        "patch_size": 16,
        "qkv_bias": True,
        "torch_dtype": "float32",
        "transformers_version": "4.13.0.dev0",
    },
}
OFFICIAL["gpt2-medium"] = OFFICIAL["gpt2"] | {"n_embd": 1024, "n_head": 16, "n_layer": 24}
OFFICIAL["gpt2-medium"] |= {"n_special": 0, "predict_special_tokens": True}
OFFICIAL["gpt2-xl"] = OFFICIAL["gpt2"] | {"n_embd": 1600, "n_head": 25, "n_layer": 48, "output_past": True}


@pytest.mark.parametrize("name", OFFICIAL)
def test_an_official_config_is_the_architecture_of_that_name(name):
    family, _, config = recognise(OFFICIAL[name])
    known, ours = find(name)
    assert family == known.name
    # Google's ViT uses 1e-6; Hugging Face's copy of it says 1e-12.
    assert config == (ours.with_changes(norm_eps=1e-12) if family == "vit" else ours)


SAYABLE = [
    (GPT2Format(), {name: config for name, config in GPT_SIZES.items() if name.startswith("gpt2")}),
    (GPT1Format(), {"gpt1": GPT_SIZES["gpt1"]}),
    (HuggingFaceViT(), {name: config for name, config in VIT_SIZES.items() if config.pooling == "cls"}),
]


@pytest.mark.parametrize(
    ("format", "config"),
    [pytest.param(format, config, id=name) for format, sizes in SAYABLE for name, config in sizes.items()],
)
def test_a_config_written_in_their_form_reads_back_the_same(format, config):
    assert format.unsayable(config) is None
    assert format.read_config(json.loads(json.dumps(format.write_config(config)))) == config


@pytest.mark.parametrize(
    ("format", "config", "field"),
    [
        (GPT2Format(), GPTConfig(band=8), "band"),
        (GPT2Format(), GPTConfig(kv_heads=4), "kv_heads"),
        (GPT2Format(), GPTConfig(head_width=32), "head_width"),
        (GPT2Format(), GPTConfig(value_width=32), "value_width"),
        (GPT2Format(), GPTConfig(positions="rotary"), "positions"),
        (GPT2Format(), GPTConfig(norm="post"), "norm"),
        (GPT2Format(), GPTConfig(final_norm=False), "final_norm"),
        (GPT1Format(), GPTConfig(norm="post", final_norm=False, ff=100), "ff"),
        (GPT1Format(), GPTConfig(norm="post", final_norm=False, activation="tanh"), "activation"),
        (GPT1Format(), GPTConfig(norm="post", final_norm=False, layer_scaled=True), "layer_scaled"),
        (GPT1Format(), GPTConfig(norm="post", final_norm=False, scores_scaled=False), "scores_scaled"),
        (GPT1Format(), GPTConfig(), "norm"),
        (HuggingFaceViT(), ViTConfig(pooling="mean"), "pooling"),
        (HuggingFaceViT(), ViTConfig(stride=8), "stride"),
        (HuggingFaceViT(), ViTConfig(positions="sinusoidal-2d"), "positions"),
        (HuggingFaceViT(), ViTConfig(final_norm="pooled"), "final_norm"),
        (HuggingFaceViT(), ViTConfig(norm="post"), "norm"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_field_that_their_form_can_not_say_is_named(format, config, field):
    assert format.unsayable(config) == field


def refused(values: dict[str, Any]) -> str:
    with pytest.raises(ClearheadError) as caught:
        recognise(json.loads(json.dumps(values)))
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 600
    return message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rotary_dim": 64}, "does not know the field 'rotary_dim' (64); it may change the arithmetic"),
        ({"two\nlines": 1}, "does not know the field 'two\\nlines'"),
        ({"long": "x" * 100_000}, "does not know the field 'long'"),
        ({"add_cross_attention": True}, "add_cross_attention = True is not supported, only False"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads = {'0': [1]} is not supported"),
        ({"activation_function": "mish"}, "activation_function 'mish' is not an activation that clearhead computes"),
        ({"activation_function": "gelu_neww"}, "did you mean 'gelu_new'"),
        ({"activation_function": ["gelu"]}, "activation_function must be a text, not ['gelu']"),
        ({"activation_function": None}, "activation_function must be a text, not None"),
        ({"layer_norm_epsilon": "1e-5"}, "layer_norm_epsilon must be a number, not '1e-5'"),
        ({"layer_norm_epsilon": float("nan")}, "layer_norm_epsilon must be a number, not nan"),
        ({"layer_norm_epsilon": float("inf")}, "layer_norm_epsilon must be a number, not inf"),
        ({"layer_norm_epsilon": True}, "layer_norm_epsilon must be a number, not True"),
        ({"layer_norm_epsilon": 0}, "norm_eps must be above 0"),
        ({"scale_attn_weights": 1}, "scale_attn_weights must be true or false, not 1"),
        ({"tie_word_embeddings": "false"}, "tie_word_embeddings must be true or false, not 'false'"),
        ({"resid_pdrop": "x" * 100_000}, "resid_pdrop must be a number"),
        ({"resid_pdrop": 1.5}, "dropout must be at least 0 and below 1"),
        ({"n_embd": 10**9}, "width must be a whole number from 1 to 16,777,216, not 1000000000"),
        ({"n_embd": 768.5}, "width must be a whole number"),
        ({"n_embd": None}, "width must be a whole number"),
        ({"n_embd": [768]}, "width must be a whole number"),
        ({"n_embd": -768}, "width must be a whole number"),
        ({"n_layer": 0}, "layers must be a whole number"),
        ({"n_inner": "3072"}, "ff must be a whole number"),
        ({"n_head": 7}, "7 heads don't divide a width of 768"),
        ({"vocab_size": True}, "vocab must be a whole number"),
    ],
)
def test_a_field_that_can_not_be_honoured_is_named_in_one_line(changes, message):
    assert message in refused(OFFICIAL["gpt2"] | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_size": [224, 224, 3]}, "image must be one size or (height, width)"),
        ({"image_size": "224"}, "image must be one size or (height, width)"),
        ({"image_size": 10**9}, "image must be one size or (height, width)"),
        ({"patch_size": 15}, "patches of 15 every 15 pixels don't fit 224 pixels"),
        ({"id2label": ["cat", "dog"]}, "id2label must be an object"),
        ({"id2label": None, "num_labels": "two"}, "num_classes must be a whole number"),
        ({"qkv_bias": None}, "qkv_bias must be true or false, not None"),
        ({"use_mask_token": True}, "does not know the field 'use_mask_token'"),
    ],
)
def test_a_vits_field_that_can_not_be_honoured_is_named_in_one_line(changes, message):
    assert message in refused(OFFICIAL["vit-b16"] | changes)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model_type": "llama"}, "model_type 'llama' is not one that clearhead reads"),
        ({"model_type": "gpt-2"}, "did you mean 'gpt2'"),
        ({"model_type": ["gpt2"]}, "model_type ['gpt2'] is not one"),
        ({}, "model_type None is not one"),
        ({"model_type": "gpt2", "clearhead": {"format_version": 2}}, "format version 2 is unknown"),
        ({"model_type": "gpt2", "clearhead": {"format_version": "1"}}, "format version '1' is unknown"),
        ({"model_type": "gpt2", "clearhead": {}}, "format version None is unknown"),
        ({"model_type": "clearhead-gpt"}, "needs the key 'clearhead' with a 'config' in it"),
        (
            {"model_type": "clearhead-gpt", "clearhead": {"format_version": 1, "config": {"n_layer": 3}}},
            "GPTConfig has no field 'n_layer'; did you mean 'layers'",
        ),
    ],
)
def test_a_config_of_an_unknown_kind_or_version_is_refused_in_one_line(values, message):
    assert message in refused(values)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"n_layer": 3}, "GPTConfig has no field 'n_layer'; did you mean 'layers'"),
        ({"norm_eps": "small"}, "norm_eps must be a number, not 'small'"),
        ({"activation": {}}, "activation must be a text, not {}"),
        ({"tied": "no"}, "tied must be true or false, not 'no'"),
        ({"width": 10**9}, "width must be a whole number from 1 to 16,777,216"),
        ({"layers": {}}, "layers must be a whole number"),
        ({"head_width": "2"}, "head_width must be a whole number"),
        ({"norm": "both"}, "norm must be one of pre, post, not 'both'"),
    ],
    ids=str,
)
def test_a_config_of_our_own_form_is_checked_as_closely(config, message):
    values = {"model_type": "clearhead-gpt", "clearhead": {"format_version": 1, "config": config}}
    assert message in refused(values)


def test_each_dropout_is_the_one_that_it_is_called():
    changes = {"resid_pdrop": 0.1, "attn_pdrop": 0.2, "embd_pdrop": 0.3}
    config = recognise(OFFICIAL["gpt2"] | changes)[2]
    assert (config.dropout, config.attention_dropout, config.embedding_dropout) == (0.1, 0.2, 0.3)
    changes = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.2}
    config = recognise(OFFICIAL["vit-b16"] | changes)[2]
    assert (config.dropout, config.attention_dropout) == (0.1, 0.2)


# What timm puts beside its weights: modelled on the config.json of vit_base_patch16_224.augreg2_in21k_ft_in1k.
TIMM = {
    "architecture": "vit_base_patch16_224",
    "num_classes": 1000,
    "num_features": 768,
    "global_pool": "token",
    "pretrained_cfg": {
        **{"tag": "augreg2_in21k_ft_in1k", "custom_load": False, "input_size": [3, 224, 224]},
        **{"fixed_input_size": True, "interpolation": "bicubic", "crop_pct": 0.9, "crop_mode": "center"},
        **{"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "num_classes": 1000, "pool_size": None},
        **{"first_conv": "patch_embed.proj", "classifier": "head"},
    },
}


@pytest.mark.parametrize(
    ("changes", "config"),
    [
        ({}, VIT_SIZES["vit-b16"]),
        ({"architecture": "vit_base_patch16_224.augreg_in1k"}, VIT_SIZES["vit-b16"]),
        ({"architecture": "vit_tiny_patch16_224"}, VIT_SIZES["vit-ti16"]),
        ({"architecture": "vit_small_patch16_224"}, VIT_SIZES["vit-s16"]),
        ({"architecture": "vit_base_patch32_224"}, VIT_SIZES["vit-b32"]),
        ({"architecture": "vit_large_patch16_224"}, VIT_SIZES["vit-l16"]),
        ({"architecture": "vit_huge_patch14_224"}, VIT_SIZES["vit-h14"]),
        ({"architecture": "vit_base_patch16_384", "pretrained_cfg": {}}, ViTConfig(image=384)),
        ({"pretrained_cfg": {"input_size": [1, 224, 448]}}, ViTConfig(image=(224, 448), channels=1)),
        ({"num_classes": 7}, ViTConfig(num_classes=7)),
        (
            {"num_classes": 7, "model_args": {"num_classes": 8, "img_size": [32, 64]}},
            ViTConfig(image=(32, 64), num_classes=8),
        ),
        ({"model_args": {"depth": 2, "qkv_bias": False}}, ViTConfig(layers=2, qkv_bias=False)),
        (
            {"global_pool": "avg", "model_args": {"class_token": False}},
            ViTConfig(pooling="mean", final_norm="pooled"),
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_config_of_timms_is_the_architecture_it_names(changes, config):
    assert recognise(TIMM | changes)[2] == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": "vit_base_patch16_224_miil"}, "'vit_base_patch16_224_miil' is not a plain ViT"),
        ({"architecture": ["vit_base_patch16_224"]}, "is not a plain ViT"),
        ({"architecture": "vit_base_patch99999_224"}, "is not a plain ViT"),
        ({"pretrained_cfg": "no"}, "pretrained_cfg must be an object, not 'no'"),
        ({"model_args": ["depth"]}, "model_args must be an object, not ['depth']"),
        ({"model_args": {"depth": 10**9}}, "layers must be a whole number"),
        ({"model_args": {"img_size": "224"}}, "image must be one size or (height, width)"),
        ({"model_args": {"init_values": 1e-5}}, "model_args has 'init_values' = 1e-05, which clearhead does not know"),
        ({"pretrained_cfg": {"input_size": 224}}, "input_size must be [channels, height, width], not 224"),
        ({"pretrained_cfg": {"input_size": [3, 224]}}, "input_size must be [channels, height, width]"),
        ({"global_pool": ["token"]}, "global_pool ['token'] with class_token True is not built"),
        ({"global_pool": "avg"}, "global_pool 'avg' with class_token True is not built"),
        ({"num_classes": -1}, "num_classes must be a whole number"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_config_of_timms_that_can_not_be_honoured_is_refused_in_one_line(changes, message):
    assert message in refused(TIMM | changes)


def test_no_two_forms_share_a_model_type():
    kinds = [format.model_type for format in HUGGING_FACE]
    assert len(set(kinds)) == len(kinds)


def test_every_activation_of_ours_can_be_said_and_reads_back():
    assert set(ACTIVATIONS_OUT) == set(ACTIVATIONS) == set(ACTIVATIONS_IN.values())
    assert all(ACTIVATIONS_IN[theirs] == ours for ours, theirs in ACTIVATIONS_OUT.items())
