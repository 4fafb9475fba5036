"""T5 as Hugging Face keeps it: `T5ForConditionalGeneration`, v1.0 and v1.1."""

from typing import Any

import torch

from ..errors import ClearheadError, quoted
from ..models.t5 import T5Config
from .fields import ACTIVATIONS_OUT, Field, Fields, activation
from .format import Format
from .rules import Dialect, Rule, each_layer, same, stacked
from .tensors import Weights

FIELDS = Fields(
    table=(
        Field("vocab_size", "vocab", 32128),
        Field("d_model", "width", 512),
        Field("d_kv", "head_width", 64),
        Field("d_ff", "ff", 2048),
        Field("num_layers", "layers", 6),
        Field("num_decoder_layers", "decoder_layers", None),
        Field("num_heads", "heads", 8),
        Field("relative_attention_num_buckets", "buckets", 32),
        Field("relative_attention_max_distance", "max_distance", 128),
        Field("dropout_rate", "dropout", 0.1),
        Field("layer_norm_epsilon", "norm_eps", 1e-6),
        Field("initializer_factor", "init_factor", 1.0),
        Field("pad_token_id", "pad_token", 0),
        Field("eos_token_id", "end_token", 1),
    ),
    fixed={
        "is_decoder": False,
        "is_encoder_decoder": True,
        "add_cross_attention": False,
        "tie_encoder_decoder": False,
        "pruned_heads": {},
        "chunk_size_feed_forward": 0,
    },
    ignored=frozenset({"n_positions", "output_past", "classifier_dropout"}),
)

# Fields that say one thing together: `_feed_forward` and `_head` read them.
JOINT = {"feed_forward_proj", "dense_act_fn", "is_gated_act", "tie_word_embeddings", "scale_decoder_outputs"}

TABLE, HEAD = "shared.weight", "lm_head.weight"
TABLE_COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
_activation = activation("feed_forward_proj", "relu")


def _feed_forward(values: dict[str, Any]) -> dict[str, Any]:
    """'relu' or 'gated-gelu', where that GELU is the tanh formula; derived fields win, as in transformers."""
    said = str(values.get("feed_forward_proj", "relu"))
    gate, _, name = said.rpartition("-")
    if gate not in ("", "gated"):
        raise ClearheadError(
            f"config.json: feed_forward_proj {quoted(said)} is neither an activation nor gated-ACTIVATION"
        )
    name = values.get("dense_act_fn", "gelu_new" if said == "gated-gelu" else name)
    return {"activation": _activation.read(str(name)), "gated": values.get("is_gated_act", gate == "gated")}


def _head(values: dict[str, Any]) -> dict[str, Any]:
    """Before transformers 5 a tied head was scaled and no other; since then the scale has a field of its own."""
    tied = values.get("tie_word_embeddings")
    tied = True if tied is None else tied
    return {"tied": tied, "output_scaled": values.get("scale_decoder_outputs", tied)}


def _proj(config: T5Config) -> str:
    name = ACTIVATIONS_OUT[config.activation]
    if not config.gated:
        return name
    return "gated-" + {"gelu_new": "gelu", "gelu": "gelu_python"}.get(name, name)  # what `_feed_forward` undoes


def _self_attention(ours: str, theirs: str) -> list[Rule]:
    return [
        same(f"{ours}.attention_norm.weight", f"{theirs}.layer_norm.weight"),
        stacked(f"{ours}.attention.qkv.weight", *(f"{theirs}.SelfAttention.{part}.weight" for part in "qkv")),
        same(f"{ours}.attention.out.weight", f"{theirs}.SelfAttention.o.weight"),
    ]


def _cross_attention(ours: str, theirs: str) -> list[Rule]:
    parts = {"query": "q", "key": "k", "value": "v", "out": "o"}
    return [
        same(f"{ours}.cross_norm.weight", f"{theirs}.layer_norm.weight"),
        *(same(f"{ours}.cross.{us}.weight", f"{theirs}.EncDecAttention.{them}.weight") for us, them in parts.items()),
    ]


def _feed_forward_layer(ours: str, theirs: str, gated: bool) -> list[Rule]:
    dense = f"{theirs}.DenseReluDense"
    plain = same(f"{ours}.feed_forward.up.weight", f"{dense}.wi.weight")
    both = stacked(f"{ours}.feed_forward.gate_up.weight", f"{dense}.wi_0.weight", f"{dense}.wi_1.weight")
    return [
        same(f"{ours}.feed_forward_norm.weight", f"{theirs}.layer_norm.weight"),
        both if gated else plain,
        same(f"{ours}.feed_forward.down.weight", f"{dense}.wo.weight"),
    ]


def _stack(side: str, layers: int, gated: bool) -> list[Rule]:
    ours, theirs = f"{side}.blocks.{{}}", f"{side}.block.{{}}.layer"
    cross = _cross_attention(ours, f"{theirs}.1") if side == "decoder" else []
    block = [
        *_self_attention(ours, f"{theirs}.0"),
        *cross,
        *_feed_forward_layer(ours, f"{theirs}.{2 if cross else 1}", gated),
    ]
    bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    final = same(f"{side}.norm.weight", f"{side}.final_layer_norm.weight")
    return [same(f"{side}_bias.weight", bias), *each_layer(block, layers), final]


class T5Format(Format):
    model_type, family, architecture = "t5", "t5", "T5ForConditionalGeneration"

    def read_config(self, values: dict) -> T5Config:
        plain = FIELDS.read({name: value for name, value in values.items() if name not in JOINT})
        if plain["decoder_layers"] == plain["layers"]:
            plain["decoder_layers"] = None
        start = values.get("decoder_start_token_id")
        plain["start_token"] = plain["pad_token"] if start is None else start
        return T5Config(**plain, **_feed_forward(values), **_head(values))

    def settled(self, config: T5Config, weights: Weights) -> T5Config:
        """transformers 5 says of every T5 that it is tied: a head in the file that differs from the table is not."""
        table = next((name for name in (TABLE, *TABLE_COPIES) if name in weights), None)
        if not config.tied or HEAD not in weights or table is None:
            return config
        return config.with_changes(tied=torch.equal(weights[HEAD], weights[table]))

    def unsayable(self, config: T5Config) -> str | None:
        return None

    def write_config(self, config: T5Config) -> dict:
        values = FIELDS.write(config.to_dict() | {"decoder_layers": config.decoder_layers or config.layers})
        values |= {
            "decoder_start_token_id": config.start_token,
            "feed_forward_proj": _proj(config),
            "is_encoder_decoder": True,
            "tie_word_embeddings": config.tied,
        }
        return (
            values if config.output_scaled == config.tied else values | {"scale_decoder_outputs": config.output_scaled}
        )

    def dialect(self, config: T5Config) -> Dialect:
        rules = [
            same("source.tokens.weight", TABLE),
            *_stack("encoder", config.layers, config.gated),
            *_stack("decoder", config.decoder_layers or config.layers, config.gated),
            *([] if config.tied else [same("output.weight", HEAD)]),
        ]
        return Dialect(
            rules,
            leftovers=(
                r"^decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight$",
                r"layer_norm\.bias$",  # of the first files: T5's norms never had one
            ),
            copies=dict.fromkeys((*TABLE_COPIES, *([HEAD] if config.tied else [])), TABLE),
        )
