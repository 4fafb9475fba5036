"""ViT as timm keeps it: its names for the tensors, and the config.json that it puts beside them."""

import re
from typing import Any

from ..errors import ClearheadError, quoted, shown
from ..models.vit import ViTConfig
from .format import Format
from .rules import Dialect, each_layer, same, with_biases
from .vit import frame, size

PLAIN = re.compile(r"vit_(tiny|small|base|large|huge)_patch(\d{1,4})_(\d{1,5})(\.|$)")

SIZES: dict[str, dict[str, int]] = {
    "tiny": {"width": 192, "heads": 3},
    "small": {"width": 384, "heads": 6},
    "base": {},
    "large": {"width": 1024, "layers": 24, "heads": 16},
    "huge": {"width": 1280, "layers": 32, "heads": 16},
}

# Arguments of timm's VisionTransformer that change the arithmetic and are ours too. Others are refused by name.
ARGUMENTS = {
    "img_size": "image",
    "patch_size": "patch",
    "in_chans": "channels",
    "num_classes": "num_classes",
    "embed_dim": "width",
    "depth": "layers",
    "num_heads": "heads",
    "qkv_bias": "qkv_bias",
}
POOLING: dict[tuple[str, bool], dict[str, Any]] = {
    ("token", True): {"pooling": "cls", "final_norm": "tokens"},
    ("avg", False): {"pooling": "mean", "final_norm": "pooled"},
}


class TimmViT(Format):
    model_type, family, architecture = "timm", "vit", "VisionTransformer"

    def read_config(self, values: dict) -> ViTConfig:
        """An architecture's name, what its weights were trained for, and the arguments that differ from the name's."""
        name = str(values.get("architecture"))
        match = PLAIN.match(name)
        if match is None:
            raise ClearheadError(
                f"config.json: timm's architecture {quoted(name)} is not a plain ViT that clearhead reads"
            )
        trained, arguments = _object(values, "pretrained_cfg"), _object(values, "model_args")
        pooling = _pooling([arguments, values, trained])
        for field in arguments.keys() - ARGUMENTS.keys() - {"global_pool", "class_token"}:
            raise ClearheadError(
                f"config.json: model_args has {quoted(field)} = {shown(repr(arguments[field]), 80)}, "
                "which clearhead does not know"
            )
        channels, *image = _input_size(trained, int(match[3]))
        said: dict[str, Any] = {"image": tuple(image), "patch": int(match[2]), "channels": channels} | SIZES[match[1]]
        said |= pooling | {ARGUMENTS[field]: size(value) for field, value in arguments.items() if field in ARGUMENTS}
        classes = said.pop("num_classes", values.get("num_classes", trained.get("num_classes")))
        return ViTConfig(**said, **({"num_classes": classes} if classes else {}))  # 0: the file has no head

    def dialect(self, config: ViTConfig) -> Dialect:
        at, ours = "blocks.{}", "encoder.blocks.{}"
        block = [
            *with_biases(same, f"{ours}.attention_norm", f"{at}.norm1"),
            *with_biases(same, f"{ours}.attention.qkv", f"{at}.attn.qkv", bias=config.qkv_bias),
            *with_biases(same, f"{ours}.attention.out", f"{at}.attn.proj"),
            *with_biases(same, f"{ours}.feed_forward_norm", f"{at}.norm2"),
            *with_biases(same, f"{ours}.feed_forward.up", f"{at}.mlp.fc1"),
            *with_biases(same, f"{ours}.feed_forward.down", f"{at}.mlp.fc2"),
        ]
        on_tokens = config.final_norm == "tokens"
        rules = [
            *frame(config, "cls_token", "pos_embed", "patch_embed.proj"),
            *each_layer(block, config.layers),
            *(with_biases(same, "encoder.norm", "norm") if on_tokens else with_biases(same, "pooled_norm", "fc_norm")),
            *with_biases(same, "output", "head"),
        ]
        return Dialect(rules, optional=("output.",))


def _pooling(said_in: list[dict[str, Any]]) -> dict[str, Any]:
    """How the tokens become one vector: `global_pool` where it is said first, `class_token` where it is an argument."""
    pool = next((values["global_pool"] for values in said_in if "global_pool" in values), "token")
    class_token = said_in[0].get("class_token", True)
    known = next((ours for theirs, ours in POOLING.items() if theirs == (pool, class_token)), None)
    if known is None:
        raise ClearheadError(
            f"config.json: global_pool {shown(repr(pool), 80)} with class_token {shown(repr(class_token), 80)} is not "
            "built, only 'token' with a class token and 'avg' without one"
        )
    return known


def _object(values: dict[str, Any], name: str) -> dict[str, Any]:
    inner = values.get(name) or {}
    if not isinstance(inner, dict):
        raise ClearheadError(f"config.json: {name} must be an object, not {shown(repr(inner), 80)}")
    return inner


def _input_size(trained: dict[str, Any], edge: int) -> list[Any]:
    sizes = trained.get("input_size", [3, edge, edge])
    if not isinstance(sizes, list) or len(sizes) != 3:
        raise ClearheadError(f"config.json: input_size must be [channels, height, width], not {shown(repr(sizes), 80)}")
    return sizes
