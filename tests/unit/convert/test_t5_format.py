"""T5's folders: there and back, the official files' names, everything they carry too much, and what is refused."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import clearhead
from clearhead.convert import recognise
from clearhead.convert.t5 import T5Format
from clearhead.errors import ClearheadError
from clearhead.models.registry import on_meta
from clearhead.models.t5 import FAMILY, SIZES, T5, T5Config

# What the hub's config.json of t5-small, t5-v1_1-small and flan-t5-small say.
T5_SMALL = {
    "architectures": ["T5ForConditionalGeneration"],
    "d_ff": 2048,
    "d_kv": 64,
    "d_model": 512,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.1,
    "eos_token_id": 1,
    "initializer_factor": 1.0,
    "is_encoder_decoder": True,
    "layer_norm_epsilon": 1e-06,
    "model_type": "t5",
    "n_positions": 512,
    "num_heads": 8,
    "num_layers": 6,
    "output_past": True,
    "pad_token_id": 0,
    "relative_attention_num_buckets": 32,
    "task_specific_params": {"summarization": {"early_stopping": True, "prefix": "summarize: "}},
    "vocab_size": 32128,
}
V1_1_SMALL = T5_SMALL | {
    "d_ff": 1024,
    "feed_forward_proj": "gated-gelu",
    "num_decoder_layers": 8,
    "num_heads": 6,
    "num_layers": 8,
    "tie_word_embeddings": False,
}
FLAN_SMALL = V1_1_SMALL | {
    "classifier_dropout": 0.0,
    "dense_act_fn": "gelu_new",
    "is_gated_act": True,
    "relative_attention_max_distance": 128,
    "transformers_version": "4.23.1",
    "use_cache": True,
}

PART = ["SelfAttention.q", "SelfAttention.k", "SelfAttention.v", "SelfAttention.o", "layer_norm"]
CROSS = [name.replace("Self", "EncDec") for name in PART]
RELATIVE = "SelfAttention.relative_attention_bias"
SECOND_BIAS = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"


def official_names(layers: int, dense: tuple[str, ...], head: bool) -> set[str]:
    """The tensors of an official pytorch_model.bin of v1.0 or v1.1, with everything it repeats."""
    feed_forward = [*(f"DenseReluDense.{name}" for name in dense), "layer_norm"]
    sides = {"encoder": (PART, feed_forward), "decoder": (PART, CROSS, feed_forward)}
    names = {"shared", "encoder.embed_tokens", "decoder.embed_tokens", *(["lm_head"] if head else [])}
    for side, parts in sides.items():
        names |= {f"{side}.final_layer_norm", f"{side}.block.0.layer.0.{RELATIVE}"}
        for block in range(layers):
            names |= {f"{side}.block.{block}.layer.{n}.{name}" for n, part in enumerate(parts) for name in part}
    return {f"{name}.weight" for name in names}


@pytest.mark.parametrize(("name", "dense"), [("t5-small", ("wi", "wo")), ("t5-v1.1-small", ("wi_0", "wi_1", "wo"))])
def test_every_name_of_an_official_file_is_known_and_no_other_is_asked_for(name: str, dense: tuple[str, ...]):
    config = SIZES[name]
    dialect = T5Format().dialect(config)
    assert dialect.names | set(dialect.copies) == official_names(config.layers, dense, head=True)
    assert {rule.ours for rule in dialect.rules} == {name for name, _ in on_meta(FAMILY, config).named_parameters()}


@pytest.mark.parametrize(
    ("values", "name"), [(T5_SMALL, "t5-small"), (V1_1_SMALL, "t5-v1.1-small"), (FLAN_SMALL, "t5-v1.1-small")]
)
def test_the_official_configs_are_the_published_sizes(values: dict, name: str):
    family, _, config = recognise(values)
    assert (family, config) == ("t5", SIZES[name])


def made(**changes: object) -> T5:
    model = T5(FAMILY.shrunken.with_changes(**changes)).eval()
    model.initialise(torch.Generator().manual_seed(3))
    return model


VARIANTS = {
    "v1.0": {"gated": False, "activation": "relu", "tied": True, "output_scaled": True},
    "v1.1": {},
    "tied and not scaled": {"tied": True},
    "scaled and not tied": {"output_scaled": True},
    "exact gated GELU": {"activation": "gelu"},
    "plain tanh GELU": {"gated": False},
    "gated SiLU": {"activation": "silu"},
    "a shallower decoder": {"decoder_layers": 1},
    "other tokens": {"pad_token": 7, "start_token": 8, "end_token": 9},
    "no tokens settled": {"pad_token": None, "start_token": None, "end_token": None},
    "odd arithmetic": {"buckets": 7, "max_distance": 5, "norm_eps": 0.01, "init_factor": 0.5, "dropout": 0.25},
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_there_and_back_again_is_bit_equal(changes: dict, tmp_path: Path):
    model = made(**changes)
    again = clearhead.load(clearhead.save(model, tmp_path), device="cpu")
    assert again.config == model.config
    assert again.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(again.state_dict()[name], weight) for name, weight in model.state_dict().items())
    inputs = model.example()
    assert torch.equal(again(*inputs), model(*inputs))
    assert not again.origin.notes


def test_a_written_config_names_their_class_and_says_the_tokens():
    values = T5Format().write_config(SIZES["t5-v1.1-small"])
    assert values["feed_forward_proj"] == "gated-gelu"
    assert values["tie_word_embeddings"] is False
    assert (values["pad_token_id"], values["decoder_start_token_id"], values["eos_token_id"]) == (0, 0, 1)
    assert "scale_decoder_outputs" not in values


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of the first version, as we save it."""
    return clearhead.save(made(**VARIANTS["v1.0"]), tmp_path)


def change(folder: Path, tensors: dict[str, Tensor | None] | None = None, **fields: object) -> Path:
    """Put these tensors and fields into a folder; None takes a tensor out."""
    file, config = folder / "model.safetensors", folder / "config.json"
    kept = load_file(file) | (tensors or {})
    save_file({name: tensor for name, tensor in kept.items() if tensor is not None}, file, {"format": "pt"})
    config.write_text(json.dumps(json.loads(config.read_text()) | fields))
    return folder


def table(folder: Path) -> Tensor:
    return load_file(folder / "model.safetensors")["shared.weight"]


@pytest.mark.parametrize("name", ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"])
def test_a_copy_of_the_table_is_dropped_without_a_word(name: str, folder: Path):
    model = clearhead.load(change(folder, {name: table(folder)}), device="cpu")
    assert model.config == made(**VARIANTS["v1.0"]).config
    assert not model.origin.notes


@pytest.mark.parametrize(
    "name", [SECOND_BIAS, "encoder.block.1.layer.0.layer_norm.bias", "decoder.final_layer_norm.bias"]
)
def test_a_left_over_of_the_official_files_is_dropped_and_said(name: str, folder: Path):
    model = clearhead.load(change(folder, {name: torch.zeros(24)}), device="cpu")
    assert [name in note for note in model.origin.notes] == [True]


@pytest.mark.parametrize("name", ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"])
def test_a_copy_stands_in_for_a_table_that_is_left_out(name: str, folder: Path):
    before = clearhead.load(folder, device="cpu").state_dict()
    after = clearhead.load(change(folder, {name: table(folder), "shared.weight": None}), device="cpu").state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_an_untied_head_never_stands_in_for_the_table(folder: Path):
    head, rows = torch.randn(101, 24), table(folder)
    tensors = {"lm_head.weight": head, "decoder.embed_tokens.weight": rows, "shared.weight": None}
    model = clearhead.load(change(folder, tensors, tie_word_embeddings=False), device="cpu")
    assert torch.equal(model.source.tokens.weight, rows)
    assert torch.equal(model.output.weight, head)


def test_a_copy_of_the_table_that_differs_is_refused(folder: Path):
    change(folder, {"decoder.embed_tokens.weight": table(folder) + 1})
    with pytest.raises(ClearheadError, match="'decoder.embed_tokens.weight' should repeat 'shared.weight'"):
        clearhead.load(folder, device="cpu")


@pytest.mark.parametrize(
    ("fields", "scaled"),
    [({}, True), ({"scale_decoder_outputs": False}, False), ({"tie_word_embeddings": False}, False)],
    ids=["transformers 5, v1.0", "transformers 5, v1.1", "transformers 4, v1.1"],
)
def test_a_head_of_its_own_in_the_file_is_used_and_the_config_says_the_scale(fields: dict, scaled: bool, folder: Path):
    head = torch.randn(101, 24)
    model = clearhead.load(change(folder, {"lm_head.weight": head}, **fields), device="cpu")
    assert (model.config.tied, model.config.output_scaled) == (False, scaled)
    assert torch.equal(model.output.weight, head)


def test_a_head_that_the_config_unties_must_be_there(folder: Path):
    with pytest.raises(ClearheadError, match="lacks lm_head.weight"):
        clearhead.load(change(folder, tie_word_embeddings=False), device="cpu")


@pytest.mark.parametrize(
    ("proj", "activation", "gated"),
    [
        ("relu", "relu", False),
        ("gated-gelu", "gelu-tanh", True),
        ("gated-gelu_new", "gelu-tanh", True),
        ("gated-gelu_python", "gelu", True),
        ("gated-silu", "silu", True),
        ("gelu", "gelu", False),
        ("gelu_new", "gelu-tanh", False),
        ("swish", "silu", False),
    ],
)
def test_feed_forward_proj_says_activation_and_gate(proj: str, activation: str, gated: bool):
    config = T5Format().read_config({"feed_forward_proj": proj})
    assert (config.activation, config.gated) == (activation, gated)


def test_derived_fields_win_over_what_they_were_derived_from_as_in_transformers():
    said = {"feed_forward_proj": "gated-gelu", "dense_act_fn": "silu", "is_gated_act": False}
    config = T5Format().read_config(said)
    assert (config.activation, config.gated) == ("silu", False)


def test_a_config_that_says_nothing_is_the_smallest_of_the_first_version():
    assert T5Format().read_config({}) == SIZES["t5-small"]
    assert T5Format().read_config({"tie_word_embeddings": None}) == SIZES["t5-small"]


def test_a_target_starts_with_padding_unless_the_config_says_otherwise():
    read = T5Format().read_config
    assert read({"pad_token_id": 5}).start_token == 5
    assert read({"pad_token_id": 5, "decoder_start_token_id": None}).start_token == 5
    assert read({"pad_token_id": 5, "decoder_start_token_id": 6}).start_token == 6


REFUSED = {
    "an unknown field": ({"rope_theta": 1e4}, "does not know the field 'rope_theta'"),
    "another split of heads": ({"num_key_value_heads": 2}, "does not know the field 'num_key_value_heads'"),
    "a decoder alone": ({"is_decoder": True}, "is_decoder = True is not supported"),
    "an encoder alone": ({"is_encoder_decoder": False}, "is_encoder_decoder = False is not supported"),
    "an unknown activation": ({"feed_forward_proj": "gated-mish"}, "'mish' is not an activation"),
    "an unknown gate": ({"feed_forward_proj": "open-gelu"}, "'open-gelu' is neither an activation nor gated-"),
    "a number for an activation": ({"feed_forward_proj": 3}, "'3' is not an activation"),
    "a list for an activation": ({"dense_act_fn": ["relu"]}, "is not an activation"),
    "a word for a gate": ({"is_gated_act": "yes"}, "gated must be"),
    "a word for a tie": ({"tie_word_embeddings": "no"}, "tied must be"),
    "a number for the scale": ({"scale_decoder_outputs": 2}, "output_scaled must be"),
    "no buckets": ({"relative_attention_num_buckets": 0}, "buckets must be a whole number"),
    "two ends": ({"eos_token_id": [1, 2]}, "end_token must be the number of a token"),
    "a width in words": ({"d_model": "512"}, "width must be a whole number"),
    "an epsilon of nothing": ({"layer_norm_epsilon": 0.0}, "norm_eps must be"),
}


@pytest.mark.parametrize(("fields", "message"), REFUSED.values(), ids=REFUSED)
def test_what_can_not_be_honoured_is_refused_in_one_line(fields: dict, message: str):
    with pytest.raises(ClearheadError) as caught:
        recognise(T5_SMALL | fields)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_of_the_encoder_alone_is_refused_by_name(folder: Path):
    kept = load_file(folder / "model.safetensors")
    change(folder, {name: None for name in kept if name.startswith("decoder")})
    with pytest.raises(ClearheadError, match="lacks decoder.block.0"):
        clearhead.load(folder, device="cpu")


def test_a_config_of_every_field_keeps_them_all():
    config = T5Config(
        vocab=50, width=6, layers=1, decoder_layers=2, heads=2, head_width=3, ff=9, gated=True, activation="tanh"
    )
    assert T5Format().read_config(T5Format().write_config(config)) == config
