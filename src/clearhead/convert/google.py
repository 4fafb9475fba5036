"""ViT as Google's own code keeps it: a .npz of Flax parameters, each kernel with its inputs first, heads kept apart."""

import math

import torch
from torch import Tensor

from ..errors import ClearheadError
from ..models.vit import ViTConfig
from .format import Format
from .rules import Dialect, Rule, each_layer, same, shaped, transposed
from .tensors import Weights

PATCHES = "embedding/kernel"
POSITIONS = "Transformer/posembed_input/pos_embedding"
HEAD = "head/bias"
REPRESENTATION = r"^pre_logits/"  # a layer before the head that some files were pretrained with


class GoogleViT(Format):
    model_type, family, architecture = "google", "vit", "VisionTransformer"

    def knows(self, weights: Weights) -> bool:
        return PATCHES in weights

    def settled(self, config: ViTConfig, weights: Weights) -> ViTConfig:
        """As many classes as the head has, and the square image that there are positions for."""
        if len(classes := _shape(weights, HEAD)) == 1:
            config = config.with_changes(num_classes=classes[0])
        if len(positions := _shape(weights, POSITIONS)) == 3:
            config = config.with_changes(image=_image(config, positions[1], weights))
        if any(name.startswith("pre_logits/") for name in weights):
            weights.notes.append("the head was trained behind pre_logits, which this ViT lacks: its scores will differ")
        return config

    def dialect(self, config: ViTConfig) -> Dialect:
        high, wide = config.patch  # pyright: ignore[reportGeneralTypeIssues]
        width, tokens = config.width, config.tokens
        rules = [
            _convolution("input.project.weight", PATCHES, (width, config.channels, high, wide)),
            same("input.project.bias", "embedding/bias"),
            shaped("input.class_token", "cls", (width,), (1, 1, width)),
            shaped("input.positions.weight", POSITIONS, (tokens, width), (1, tokens, width)),
            *each_layer(_block(config), config.layers),
            *_norm("encoder.norm", "Transformer/encoder_norm"),
            *_dense("output", "head"),
        ]
        return Dialect(rules, leftovers=(REPRESENTATION,), optional=("output.",))


def _shape(weights: Weights, name: str) -> tuple[int, ...]:
    return weights.shape(name) if name in weights else ()


def _image(config: ViTConfig, tokens: int, weights: Weights) -> tuple[int, int]:
    side = math.isqrt(max(tokens - 1, 0))
    if not side or side * side != tokens - 1:
        raise ClearheadError(f"{weights.path} has {tokens} positions, which are no square of patches and one [CLS]")
    high, wide = config.patch  # pyright: ignore[reportGeneralTypeIssues]
    return side * high, side * wide


def _block(config: ViTConfig) -> list[Rule]:
    ours, theirs = "encoder.blocks.{}", "Transformer/encoderblock_{}"
    attention, mlp = f"{theirs}/MultiHeadDotProductAttention_1", f"{theirs}/MlpBlock_3"
    heads, width = config.heads, config.width
    qkv = [f"{attention}/{name}" for name in ("query", "key", "value")]
    return [
        *_norm(f"{ours}.attention_norm", f"{theirs}/LayerNorm_0"),
        _from_heads(f"{ours}.attention.qkv.weight", [f"{name}/kernel" for name in qkv], heads),
        _of_heads(f"{ours}.attention.qkv.bias", [f"{name}/bias" for name in qkv], heads),
        _to_width(f"{ours}.attention.out.weight", f"{attention}/out/kernel", heads, width),
        same(f"{ours}.attention.out.bias", f"{attention}/out/bias"),
        *_norm(f"{ours}.feed_forward_norm", f"{theirs}/LayerNorm_2"),
        *_dense(f"{ours}.feed_forward.up", f"{mlp}/Dense_0"),
        *_dense(f"{ours}.feed_forward.down", f"{mlp}/Dense_1"),
    ]


def _norm(ours: str, theirs: str) -> list[Rule]:
    return [same(f"{ours}.weight", f"{theirs}/scale"), same(f"{ours}.bias", f"{theirs}/bias")]


def _dense(ours: str, theirs: str) -> list[Rule]:
    return [transposed(f"{ours}.weight", f"{theirs}/kernel"), same(f"{ours}.bias", f"{theirs}/bias")]


def _convolution(ours: str, theirs: str, shape: tuple[int, int, int, int]) -> Rule:
    """A convolution's (height, width, in, out), which is a product with flat patches (out, in x height x width)."""
    return Rule(
        ours,
        (theirs,),
        lambda parts: parts[0].permute(3, 2, 0, 1).reshape(shape[0], -1),
        lambda tensor: [tensor.reshape(shape).permute(2, 3, 1, 0)],
    )


def _from_heads(ours: str, theirs: list[str], heads: int) -> Rule:
    """Kernels (width, heads, features) of q, k and v, which are one (3 x heads x features, width) here."""

    def write(tensor: Tensor) -> list[Tensor]:
        return [part.t().unflatten(1, (heads, -1)) for part in tensor.chunk(len(theirs))]

    return Rule(ours, tuple(theirs), lambda parts: torch.cat([part.flatten(1).t() for part in parts]), write)


def _of_heads(ours: str, theirs: list[str], heads: int) -> Rule:
    """Biases (heads, features) of q, k and v under one another."""

    def write(tensor: Tensor) -> list[Tensor]:
        return [part.unflatten(0, (heads, -1)) for part in tensor.chunk(len(theirs))]

    return Rule(ours, tuple(theirs), lambda parts: torch.cat([part.flatten() for part in parts]), write)


def _to_width(ours: str, theirs: str, heads: int, width: int) -> Rule:
    """The output's kernel (heads, features, width)."""
    return Rule(
        ours,
        (theirs,),
        lambda parts: parts[0].reshape(-1, width).t().contiguous(),
        lambda tensor: [tensor.t().unflatten(0, (heads, -1))],
    )


GOOGLE = GoogleViT()
