"""ViT as Hugging Face keeps it: `ViTForImageClassification`. What stands before the blocks timm shares with it."""

from typing import Any

from ..errors import ClearheadError
from ..models.vit import ViTConfig
from .fields import Field, Fields, activation
from .format import Format
from .rules import Dialect, Rule, each_layer, same, shaped, stacked, with_biases


def _one_number(pair: Any) -> Any:
    return pair[0] if isinstance(pair, tuple) and pair[0] == pair[1] else list(pair)


def size(value: Any) -> Any:
    """One number, or a list of two as our configs keep it."""
    return tuple(value) if isinstance(value, list) else value


FIELDS = Fields(
    table=(
        Field("image_size", "image", 224, size, _one_number),
        Field("patch_size", "patch", 16, size, _one_number),
        Field("num_channels", "channels", 3),
        Field("hidden_size", "width", 768),
        Field("num_hidden_layers", "layers", 12),
        Field("num_attention_heads", "heads", 12),
        Field("intermediate_size", "ff", 3072),
        activation("hidden_act", "gelu"),
        Field("layer_norm_eps", "norm_eps", 1e-12),
        Field("qkv_bias", "qkv_bias", True),
        Field("hidden_dropout_prob", "dropout", 0.0),
        Field("attention_probs_dropout_prob", "attention_dropout", 0.0),
    ),
    fixed={"is_decoder": False, "is_encoder_decoder": False, "pruned_heads": {}, "chunk_size_feed_forward": 0},
    ignored=frozenset({"encoder_stride", "pooler_act", "pooler_output_size", "tie_word_embeddings"}),
)


def frame(config: ViTConfig, class_token: str, positions: str, patches: str) -> list[Rule]:
    """What stands before the blocks."""
    high, wide = config.patch  # pyright: ignore[reportGeneralTypeIssues]
    flat = config.channels * high * wide
    weight = shaped(
        "input.project.weight", f"{patches}.weight", (config.width, flat), (config.width, config.channels, high, wide)
    )
    rules = [weight, same("input.project.bias", f"{patches}.bias")]
    if config.pooling == "cls":
        rules.append(shaped("input.class_token", class_token, (config.width,), (1, 1, config.width)))
    if config.positions == "learned":
        rules.append(
            shaped("input.positions.weight", positions, (config.tokens, config.width), (1, config.tokens, config.width))
        )
    return rules


class HuggingFaceViT(Format):
    model_type, family, architecture = "vit", "vit", "ViTForImageClassification"

    def read_config(self, values: dict) -> ViTConfig:
        labels = values.get("id2label")
        if labels is not None and not isinstance(labels, dict):
            raise ClearheadError("config.json: id2label must be an object")
        # Two is what their form means when it says nothing.
        classes = len(labels) if labels else values.get("num_labels", 2)
        config = ViTConfig(**FIELDS.read(values), num_classes=classes)
        return config.with_changes(ff=None) if config.ff == 4 * config.width else config

    def unsayable(self, config: ViTConfig) -> str | None:
        if config.stride not in (None, config.patch):
            return "stride"
        plain = {"tokenizer": "patches", "norm": "pre", "final_norm": "tokens", "pooling": "cls"}
        return self.first_different(config, plain | {"positions": "learned", "rotary_base": None})

    def write_config(self, config: ViTConfig) -> dict:
        ours = config.to_dict() | {"ff": config.ff or 4 * config.width}
        labels = {str(n): f"LABEL_{n}" for n in range(config.num_classes)}
        return FIELDS.write(ours) | {"id2label": labels, "label2id": {name: int(n) for n, name in labels.items()}}

    def dialect(self, config: ViTConfig) -> Dialect:
        at, ours = "vit.encoder.layer.{}", "encoder.blocks.{}"
        qkv = [f"{at}.attention.attention.{name}" for name in ("query", "key", "value")]
        block = [
            *with_biases(same, f"{ours}.attention_norm", f"{at}.layernorm_before"),
            *with_biases(stacked, f"{ours}.attention.qkv", *qkv, bias=config.qkv_bias),
            *with_biases(same, f"{ours}.attention.out", f"{at}.attention.output.dense"),
            *with_biases(same, f"{ours}.feed_forward_norm", f"{at}.layernorm_after"),
            *with_biases(same, f"{ours}.feed_forward.up", f"{at}.intermediate.dense"),
            *with_biases(same, f"{ours}.feed_forward.down", f"{at}.output.dense"),
        ]
        start = "vit.embeddings"
        rules = [
            *frame(
                config, f"{start}.cls_token", f"{start}.position_embeddings", f"{start}.patch_embeddings.projection"
            ),
            *each_layer(block, config.layers),
            *with_biases(same, "encoder.norm", "vit.layernorm"),
            *with_biases(same, "output", "classifier"),
        ]
        return Dialect(rules, prefixes=("vit.",), leftovers=(r"(^|\.)pooler\.",), optional=("output.",))
