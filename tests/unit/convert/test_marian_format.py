"""Marian's form: official names and left-overs in, the same names out, an error for each field that can't be said."""

import json
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor

import clearhead
from clearhead.convert.marian import MarianFormat
from clearhead.errors import ClearheadError
from clearhead.models import Model
from clearhead.models.transformer import Transformer, TransformerConfig
from clearhead.ops import positions

# What config.json of the opus-mt folders holds, with their sizes made small.
OPUS = {
    "_num_labels": 3,
    "activation_dropout": 0.0,
    "activation_function": "swish",
    "add_bias_logits": False,
    "add_final_layer_norm": False,
    "architectures": ["MarianMTModel"],
    "attention_dropout": 0.0,
    "bad_words_ids": [[30]],
    "bos_token_id": 0,
    "classif_dropout": 0.0,
    "classifier_dropout": 0.0,
    "d_model": 12,
    "decoder_attention_heads": 3,
    "decoder_ffn_dim": 20,
    "decoder_layerdrop": 0.0,
    "decoder_layers": 1,
    "decoder_start_token_id": 30,
    "decoder_vocab_size": 31,
    "dropout": 0.1,
    "encoder_attention_heads": 3,
    "encoder_ffn_dim": 20,
    "encoder_layerdrop": 0.0,
    "encoder_layers": 2,
    "eos_token_id": 0,
    "extra_pos_embeddings": 31,
    "forced_eos_token_id": 0,
    "gradient_checkpointing": False,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
    "init_std": 0.02,
    "is_encoder_decoder": True,
    "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2},
    "max_length": 16,
    "max_position_embeddings": 16,
    "model_type": "marian",
    "normalize_before": False,
    "normalize_embedding": False,
    "num_beams": 6,
    "num_hidden_layers": 2,
    "pad_token_id": 30,
    "scale_embedding": True,
    "share_encoder_decoder_embeddings": True,
    "static_position_embeddings": True,
    "torch_dtype": "float16",
    "transformers_version": "4.22.0.dev0",
    "use_cache": True,
    "vocab_size": 31,
}
MEANT = TransformerConfig(
    vocab=31,
    context=16,
    width=12,
    layers=2,
    decoder_layers=1,
    heads=3,
    ff=20,
    activation="silu",
    half_split=True,
    init_std=0.02,
    pad_token=30,
    start_token=30,
    end_token=0,
)


def official_tensors() -> dict[str, Tensor]:
    """Every name of such a file: four names for one table, two tables of sinusoids, the bias of the logits as a row."""
    table, sinusoids = torch.randn(31, 12), positions.sinusoidal(16, 12, half_split=True)
    found = {"final_logits_bias": torch.randn(1, 31), "model.shared.weight": table, "lm_head.weight": table}
    for side, layers in (("encoder", 2), ("decoder", 1)):
        found |= {f"model.{side}.embed_tokens.weight": table, f"model.{side}.embed_positions.weight": sinusoids}
        for layer in range(layers):
            at = f"model.{side}.layers.{layer}"
            kinds = ("self_attn", "encoder_attn") if side == "decoder" else ("self_attn",)
            shapes = {f"{kind}.{part}_proj": (12, 12) for kind in kinds for part in ("q", "k", "v", "out")}
            shapes |= {"fc1": (20, 12), "fc2": (12, 20), "final_layer_norm": (12,)}
            shapes |= {f"{kind}_layer_norm": (12,) for kind in kinds}
            for name, shape in shapes.items():
                found |= {f"{at}.{name}.weight": torch.randn(shape), f"{at}.{name}.bias": torch.randn(shape[0])}
    return found


def written(folder: Path, tensors: dict[str, Tensor] | None = None, **changes: object) -> Path:
    (folder / "config.json").write_text(json.dumps(OPUS | changes))
    tensors = official_tensors() if tensors is None else tensors
    safetensors.torch.save_file({name: t.clone() for name, t in tensors.items()}, folder / "model.safetensors")
    return folder


def loaded(folder: Path, tensors: dict[str, Tensor] | None = None, **changes: object) -> Model:
    return clearhead.load(written(folder, tensors, **changes), device="cpu")


def refused(folder: Path, tensors: dict[str, Tensor] | None = None, **changes: object) -> str:
    with pytest.raises(ClearheadError) as caught:
        loaded(folder, tensors, **changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_official_folder_is_read_with_every_copy_and_left_over(tmp_path):
    tensors = official_tensors()
    model = loaded(tmp_path, tensors)
    assert model.config == MEANT.with_changes(output_bias=True)
    assert torch.equal(model.source.tokens.weight, tensors["model.shared.weight"])
    assert torch.equal(model.output_bias, tensors["final_logits_bias"][0])
    q, k, v = (tensors[f"model.encoder.layers.1.self_attn.{part}_proj.weight"] for part in "qkv")
    assert torch.equal(model.encoder.blocks[1].attention.qkv.weight, torch.cat([q, k, v]))
    (note,) = model.origin.notes
    assert "embed_positions.weight and 1 more like it" in note


def test_what_is_written_has_their_names_and_only_the_weights(tmp_path):
    model = loaded(tmp_path)
    clearhead.save(model, tmp_path / "again")
    names = set(safetensors.torch.load_file(tmp_path / "again" / "model.safetensors"))
    copies = {"lm_head.weight", *(f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))}
    sinusoids = {f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")}
    assert names == official_tensors().keys() - copies - sinusoids
    values = json.loads((tmp_path / "again" / "config.json").read_text())
    assert values["architectures"] == ["MarianMTModel"]
    kept = (
        "d_model",
        "decoder_layers",
        "decoder_start_token_id",
        "pad_token_id",
        "eos_token_id",
        "forced_eos_token_id",
    )
    assert {name: values[name] for name in kept} == {name: OPUS[name] for name in kept}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"output_bias": True, "tied": "decoder", "target_vocab": 7},
        {"tied": "none", "decoder_heads": 2, "decoder_ff": 9, "decoder_layers": 3, "embedding_scaled": False},
        {"init_std": 0.5, "activation": "gelu-tanh", "activation_dropout": 0.2, "attention_dropout": 0.3, "ff": None},
        {"pad_token": 0, "start_token": 1, "end_token": 2},
    ],
)
def test_there_and_back_again_is_bit_equal_with_the_same_config(changes, tmp_path):
    sayable = {"vocab": 11, "context": 9, "width": 12, "layers": 2, "heads": 3, "ff": 20, "half_split": True}
    model = Transformer(TransformerConfig(**sayable | changes))
    for weight in model.parameters():
        torch.nn.init.normal_(weight)
    clearhead.save(model, tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "marian"
    again = clearhead.load(tmp_path, device="cpu")
    assert again.config == model.config
    ours, theirs = dict(model.named_parameters()), dict(again.named_parameters())
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(theirs[name], weight) for name, weight in ours.items())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"norm": "pre"}, "norm"),
        ({"norm": "pre", "final_norm": False}, "norm"),
        ({"final_norm": True}, "final_norm"),
        ({"half_split": False}, "half_split"),
        ({"positions": "learned"}, "positions"),
        ({"norm_eps": 1e-6}, "norm_eps"),
    ],
)
def test_what_marian_cannot_say_is_named_and_saved_in_our_own_form(change, field, tmp_path):
    config = MEANT.with_changes(**change)
    assert MarianFormat().unsayable(config) == field
    model = Transformer(config)
    model.initialise(torch.Generator().manual_seed(0))
    clearhead.save(model, tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "clearhead-transformer"
    again = clearhead.load(tmp_path, device="cpu")
    assert again.config == config
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True))


def test_the_published_sizes_are_not_marians_because_their_sinusoids_go_in_turn():
    assert MarianFormat().unsayable(TransformerConfig()) == "half_split"
    assert MarianFormat().unsayable(MEANT) is None


def test_second_names_of_fields_are_understood(tmp_path):
    values = {name: value for name, value in OPUS.items() if name not in ("encoder_layers", "d_model")}
    values |= {"hidden_size": 12, "num_attention_heads": 3}
    assert MarianFormat().read_config(values) == MEANT


def test_untied_tables_leave_the_shared_one_unused(tmp_path):
    tensors = official_tensors()
    for name in ("lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"):
        tensors[name] = torch.randn(31, 12)
    model = loaded(tmp_path, tensors, tie_word_embeddings=False)
    assert model.config.tied == "none"
    assert torch.equal(model.output.weight, tensors["lm_head.weight"])
    assert torch.equal(model.target.tokens.weight, tensors["model.decoder.embed_tokens.weight"])
    assert not torch.equal(model.source.tokens.weight, tensors["model.shared.weight"])


def test_a_tied_table_may_stand_under_any_of_its_names_but_not_under_two_values(tmp_path):
    tensors = official_tensors()
    only = {name: t for name, t in tensors.items() if "embed_tokens" not in name and "shared" not in name}
    assert torch.equal(loaded(tmp_path, only).source.tokens.weight, tensors["lm_head.weight"])
    tensors["lm_head.weight"] = tensors["lm_head.weight"] + 1
    assert "'lm_head.weight' should repeat 'model.shared.weight'" in refused(tmp_path, tensors)


def test_a_file_without_a_bias_of_the_logits_gives_a_model_without_one(tmp_path):
    tensors = official_tensors()
    del tensors["final_logits_bias"]
    model = loaded(tmp_path, tensors)
    assert model.output_bias is None
    assert model.config == MEANT


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sinusoids_in_half_precision_are_recognised(tmp_path, dtype):
    assert (
        loaded(tmp_path, {name: tensor.to(dtype) for name, tensor in official_tensors().items()}).dtype == torch.float32
    )


@pytest.mark.parametrize("table", [torch.randn(16, 12), positions.sinusoidal(16, 12), torch.randn(4, 12)])
def test_position_tables_that_are_not_the_sinusoids_are_refused(tmp_path, table):
    tensors = official_tensors() | {"model.decoder.embed_positions.weight": table}
    assert "model.decoder.embed_positions.weight is not the table of sinusoids" in refused(tmp_path, tensors)


WRONG = {
    "normalize_before": (True, "normalize_before = True is not supported, only False"),
    "normalize_embedding": (True, "normalize_embedding = True"),
    "add_final_layer_norm": (True, "add_final_layer_norm = True"),
    "add_bias_logits": (True, "add_bias_logits = True"),
    "static_position_embeddings": (False, "static_position_embeddings = False"),
    "encoder_layerdrop": (0.1, "encoder_layerdrop = 0.1"),
    "decoder_layerdrop": (0.1, "decoder_layerdrop = 0.1"),
    "is_encoder_decoder": (False, "is_encoder_decoder = False"),
    "activation_function": ("mish", "activation_function 'mish' is not an activation"),
    "num_hidden_layers": (5, "num_hidden_layers and encoder_layers are two names of one field and differ"),
    "decoder_vocab_size": (7, "share_encoder_decoder_embeddings is for one vocabulary, but decoder_vocab_size differs"),
    "share_encoder_decoder_embeddings": ("yes", "share_encoder_decoder_embeddings must be true or false"),
    "tie_word_embeddings": ([], "tie_word_embeddings must be true or false"),
    "scale_embedding": (2, "scale_embedding must be true or false"),
    "eos_token_id": ([0, 1], "end_token must be the number of a token"),
    "encoder_ffn_dim": (21, "fc1.weight has shape (20, 12), the config asks for (21, 12)"),
    "decoder_layers": (2, "lacks model.decoder.layers.1."),
    "encoder_layers": (None, "differ"),
    "d_model": (13, "3 heads don't divide a width of 13"),
    "max_position_embeddings": (2**20, "sinusoids are computed for a context of up to 65,536 tokens"),
    "rope_theta": (1e4, "clearhead does not know the field 'rope_theta'"),
}


@pytest.mark.parametrize(("field", "value", "message"), [(field, *rest) for field, rest in WRONG.items()], ids=WRONG)
def test_a_field_that_changes_the_arithmetic_is_an_error_that_names_it(field, value, message, tmp_path):
    assert message in refused(tmp_path, **{field: value})


def test_an_unknown_tensor_is_refused_by_name(tmp_path):
    tensors = official_tensors() | {"model.encoder.layernorm_embedding.weight": torch.ones(12)}
    assert "has unknown model.encoder.layernorm_embedding.weight" in refused(tmp_path, tensors)
