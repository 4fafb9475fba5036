"""The Transformer as Hugging Face keeps Marian's translation models: `MarianMTModel`."""

import re
from typing import Any

from ..errors import ClearheadError
from ..models.transformer import TransformerConfig
from ..ops import positions
from .fields import Field, Fields, activation
from .format import Format
from .rules import Dialect, Rule, each_layer, same, shaped, stacked, with_biases
from .tensors import Weights

FIELDS = Fields(
    table=(
        Field("vocab_size", "vocab", 58101),
        Field("decoder_vocab_size", "target_vocab", None),
        Field("max_position_embeddings", "context", 1024),
        Field("d_model", "width", 1024),
        Field("encoder_layers", "layers", 12),
        Field("decoder_layers", "decoder_layers", 12),
        Field("encoder_attention_heads", "heads", 16),
        Field("decoder_attention_heads", "decoder_heads", 16),
        Field("encoder_ffn_dim", "ff", 4096),
        Field("decoder_ffn_dim", "decoder_ff", 4096),
        activation("activation_function", "gelu"),
        Field("scale_embedding", "embedding_scaled", False),
        Field("share_encoder_decoder_embeddings", "shared", True),
        Field("tie_word_embeddings", "tied", True),
        Field("dropout", "dropout", 0.1),
        Field("attention_dropout", "attention_dropout", 0.0),
        Field("activation_dropout", "activation_dropout", 0.0),
        Field("init_std", "init_std", 0.02),
        Field("pad_token_id", "pad_token", None),
        Field("decoder_start_token_id", "start_token", None),
        Field("eos_token_id", "end_token", None),
    ),
    fixed={
        "is_encoder_decoder": True,
        "is_decoder": False,
        "add_cross_attention": False,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "add_bias_logits": False,
        "static_position_embeddings": True,
        "tie_encoder_decoder": False,
        "cross_attention_hidden_size": None,
        "pruned_heads": {},
        "chunk_size_feed_forward": 0,
    },
    ignored=frozenset(
        {
            *("num_hidden_layers", "hidden_size", "num_attention_heads"),  # second names, compared below
            *("extra_pos_embeddings", "force_bos_token_to_be_generated", "classif_dropout", "classifier_dropout"),
        }
    ),
)

SECOND_NAMES = {
    "num_hidden_layers": "encoder_layers",
    "hidden_size": "d_model",
    "num_attention_heads": "encoder_attention_heads",
}
# (share_encoder_decoder_embeddings, tie_word_embeddings). Untied, the shared table is kept in the file and not used.
TIED = {(True, True): "all", (False, True): "decoder", (False, False): "none", (True, False): "none"}
UNSAYABLE = {"norm": "post", "norm_eps": 1e-5, "positions": "sinusoidal", "half_split": True}
LIKE_THE_ENCODERS = {"target_vocab": "vocab", "decoder_layers": "layers", "decoder_heads": "heads", "decoder_ff": "ff"}


def _with_first_names(values: dict[str, Any]) -> dict[str, Any]:
    """Some fields have a second name. Where a file has both, they must agree."""
    for second, first in SECOND_NAMES.items():
        if second in values and values.setdefault(first, values[second]) != values[second]:
            raise ClearheadError(f"config.json: {second} and {first} are two names of one field and differ")
    return values


def _block(ours: str, theirs: str, *, decoder: bool = False) -> list[Rule]:
    qkv = [f"{theirs}.self_attn.{name}_proj" for name in "qkv"]
    cross = [
        *with_biases(same, f"{ours}.cross_norm", f"{theirs}.encoder_attn_layer_norm"),
        *with_biases(same, f"{ours}.cross.query", f"{theirs}.encoder_attn.q_proj"),
        *with_biases(same, f"{ours}.cross.key", f"{theirs}.encoder_attn.k_proj"),
        *with_biases(same, f"{ours}.cross.value", f"{theirs}.encoder_attn.v_proj"),
        *with_biases(same, f"{ours}.cross.out", f"{theirs}.encoder_attn.out_proj"),
    ]
    return [
        *with_biases(same, f"{ours}.attention_norm", f"{theirs}.self_attn_layer_norm"),
        *with_biases(stacked, f"{ours}.attention.qkv", *qkv),
        *with_biases(same, f"{ours}.attention.out", f"{theirs}.self_attn.out_proj"),
        *(cross if decoder else []),
        *with_biases(same, f"{ours}.feed_forward_norm", f"{theirs}.final_layer_norm"),
        *with_biases(same, f"{ours}.feed_forward.up", f"{theirs}.fc1"),
        *with_biases(same, f"{ours}.feed_forward.down", f"{theirs}.fc2"),
    ]


SOURCE, TARGET, HEAD = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"
SHARED, BIAS, POSITIONS = "model.shared.weight", "final_logits_bias", r"(^|\.)embed_positions\.weight$"


def _tables(tied: str) -> tuple[list[Rule], dict[str, str]]:
    """The tables' rules, and the names under which a file may repeat them."""
    if tied == "all":
        return [same("source.tokens.weight", SHARED)], {SOURCE: SHARED, TARGET: SHARED, HEAD: SHARED}
    both = [same("source.tokens.weight", SOURCE), same("target.tokens.weight", TARGET)]
    return (both, {HEAD: TARGET}) if tied == "decoder" else ([*both, same("output.weight", HEAD)], {})


def _usual(config: TransformerConfig) -> dict[str, float]:
    """What our config means where it leaves a field to the width."""
    return {"ff": 4 * config.width, "init_std": config.width**-0.5}


class MarianFormat(Format):
    model_type, family, architecture = "marian", "transformer", "MarianMTModel"

    def read_config(self, values: dict) -> TransformerConfig:
        ours = FIELDS.read(_with_first_names(dict(values)))
        for name, like in LIKE_THE_ENCODERS.items():
            ours[name] = None if ours[name] == ours[like] else ours[name]
        shared, tied = ours.pop("shared"), ours.pop("tied")
        if shared and ours["target_vocab"] is not None:
            raise ClearheadError(
                "config.json: share_encoder_decoder_embeddings is for one vocabulary, but decoder_vocab_size differs"
            )
        config = TransformerConfig(**ours, tied=TIED[shared, tied], half_split=True)
        usual = {name for name, value in _usual(config).items() if getattr(config, name) == value}
        return config.with_changes(**dict.fromkeys(usual))

    def settled(self, config: TransformerConfig, weights: Weights) -> TransformerConfig:
        """A file may leave the bias of the logits out, and hold the sinusoids, which transformers would then use."""
        for name in weights:
            if re.search(POSITIONS, name) and not _sinusoids(weights, name, config):
                raise ClearheadError(
                    f"{weights.path}: {name} is not the table of sinusoids, and clearhead computes that"
                )
        return config.with_changes(output_bias=BIAS in weights)

    def unsayable(self, config: TransformerConfig) -> str | None:
        return self.first_different(config, UNSAYABLE) or ("final_norm" if config.norms_last else None)

    def write_config(self, config: TransformerConfig) -> dict:
        ours = config.to_dict() | {"shared": config.tied == "all", "tied": config.tied != "none"}
        ours |= {name: value for name, value in _usual(config).items() if ours[name] is None}
        ours |= {name: ours[like] for name, like in LIKE_THE_ENCODERS.items() if ours[name] is None}
        values = FIELDS.write(ours) | {"forced_eos_token_id": config.end_token}
        return {name: value for name, value in values.items() if (name, value) != ("decoder_start_token_id", None)}

    def dialect(self, config: TransformerConfig) -> Dialect:
        tables, copies = _tables(config.tied)
        vocab = config.target_vocab or config.vocab
        rules = [
            *tables,
            *each_layer(_block("encoder.blocks.{}", "model.encoder.layers.{}"), config.layers),
            *each_layer(
                _block("decoder.blocks.{}", "model.decoder.layers.{}", decoder=True),
                config.decoder_layers or config.layers,
            ),
            *([shaped("output_bias", BIAS, (vocab,), (1, vocab))] if config.output_bias else []),
        ]
        unused = [r"(^|\.)shared\.weight$"] if config.tied == "none" else []
        return Dialect(rules, prefixes=("model.",), leftovers=(POSITIONS, *unused), copies=copies)


def _sinusoids(weights: Weights, name: str, config: TransformerConfig) -> bool:
    """Whether a tensor is the table that we compute, as far as half precision can say."""
    if tuple(weights.shape(name)) != (config.context, config.width):
        return False
    table = positions.sinusoidal(config.context, config.width, half_split=True)
    return bool((weights[name].float() - table).abs().max() < 1e-2)
