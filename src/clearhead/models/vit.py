"""ViT: an image as a sentence of patches, read by a Transformer encoder, classified from [CLS] or the mean.

Paper: Dosovitskiy et al. 2021. Departures from Vaswani et al. 2017: no decoder, norms before their layers and one
behind the last, exact GELU, learned positions (sinusoidal ones, by patch number or 2-D, are options, and so are none).
Patches that overlap (`stride` smaller than `patch`) and mean pooling are options of ours.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from ..errors import ClearheadError
from ..layers import (
    BLOCKS,
    Block,
    FeedForward,
    FixedPositions,
    Heads,
    LayerNorm,
    LearnedPositions,
    Linear,
    Pass,
    PatchInput,
    SelfAttention,
    Stack,
)
from ..ops import ACTIVATIONS, Path, init, positions
from ..trace import recording, tap
from .base import Config, Family, Model

POSITIONS = ("learned", "sinusoidal", "sinusoidal-2d", "none")
Size = int | tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class ViTConfig(Config):
    """image, patch and stride are one number or (height, width); ff is 4 x width and stride is patch unless given.

    pooling     "cls": a learned token in front is read; "mean": there is none, the patches' mean is read
    final_norm  "tokens": the last norm stands before the pooling; "pooled": behind it (timm's average pooling)
    position_std  how widely a new model's learned positions spread: wider ones learn small pictures much faster
    """

    image: Size = (224, 224)
    patch: Size = (16, 16)
    stride: Size | None = None
    channels: int = 3
    num_classes: int = 1000
    width: int = 768
    layers: int = 12
    heads: int = 12
    ff: int | None = None
    activation: str = "gelu"
    norm: str = "pre"
    norm_eps: float = 1e-6
    final_norm: str = "tokens"
    qkv_bias: bool = True
    pooling: str = "cls"
    positions: str = "learned"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    position_std: float = 0.02

    def __post_init__(self) -> None:
        for name in ("image", "patch", "stride"):
            value = getattr(self, name)
            if isinstance(value, int):
                object.__setattr__(self, name, (value, value))
        super().__post_init__()

    def check(self) -> None:
        self.require_sizes("channels", "num_classes", "width", "layers", "heads")
        self.require_sizes(*(["ff"] if self.ff is not None else []))
        self.require_probabilities("dropout", "attention_dropout")
        self.require_choice("activation", ACTIVATIONS)
        self.require_choice("norm", BLOCKS)
        self.require_choice("pooling", ("cls", "mean"))
        self.require_choice("final_norm", ("tokens", "pooled"))
        self.require_choice("positions", POSITIONS)
        self.require(self.width % self.heads == 0, f"{self.heads} heads don't divide a width of {self.width}")
        self.require(self.norm_eps > 0, f"norm_eps must be above 0, not {self.norm_eps}")
        self.require(self.position_std > 0, f"position_std must be above 0, not {self.position_std}")
        self._check_patches()
        if self.positions == "sinusoidal-2d":
            self.require(self.width % 4 == 0, f"2-D positions need a width that 4 divides, not {self.width}")

    def _check_patches(self) -> None:
        for name, pair in (("image", self.image), ("patch", self.patch), ("stride", self.step)):
            good = (
                isinstance(pair, tuple)
                and len(pair) == 2
                and all(isinstance(n, int) and 1 <= n <= 1 << 16 for n in pair)
            )
            self.require(good, f"{name} must be one size or (height, width) in pixels, not {pair!r}")
        for side, patch, step in zip(self.image, self.patch, self.step, strict=True):  # pyright: ignore
            fits = patch <= side and (side - patch) % step == 0
            self.require(fits, f"patches of {patch} every {step} pixels don't fit {side} pixels")
            self.require(step <= patch, f"a stride of {step} would skip pixels between patches of {patch}")

    @property
    def step(self) -> tuple[int, int]:
        return self.patch if self.stride is None else self.stride  # pyright: ignore[reportReturnType]

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        rows, columns = (
            (side - patch) // step + 1
            for side, patch, step in zip(self.image, self.patch, self.step, strict=True)  # pyright: ignore
        )
        return rows, columns

    @property
    def tokens(self) -> int:
        rows, columns = self.grid
        return rows * columns + (self.pooling == "cls")


class ViT(Model):
    family = "vit"
    takes = ("image",)
    config: ViTConfig

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        c = self.config = config
        self.input = PatchInput(
            c.patch,  # pyright: ignore[reportArgumentType]
            c.step,
            c.channels,
            c.width,
            self._positions(),
            class_token=c.pooling == "cls",
            dropout=c.dropout,
        )
        on_tokens = c.final_norm == "tokens"
        self.encoder = Stack((self._block() for _ in range(c.layers)), self._norm() if on_tokens else None)
        self.pooled_norm = None if on_tokens else self._norm()
        self.output = Linear(c.width, c.num_classes)
        self.path: Path = "fused"

    def _positions(self) -> nn.Module | None:
        c = self.config
        prefix = c.tokens - c.grid[0] * c.grid[1]

        def grid_table() -> Tensor:
            table = positions.sinusoidal_2d(*c.grid, c.width)
            return torch.cat([torch.zeros(prefix, c.width), table])  # [CLS] stands nowhere

        return {
            "learned": lambda: LearnedPositions(c.tokens, c.width),
            "sinusoidal": lambda: FixedPositions(c.tokens, c.width, lambda: positions.sinusoidal(c.tokens, c.width)),
            "sinusoidal-2d": lambda: FixedPositions(c.tokens, c.width, grid_table),
            "none": lambda: None,
        }[c.positions]()

    def _norm(self) -> nn.Module:
        return LayerNorm(self.config.width, eps=self.config.norm_eps)

    def _block(self) -> Block:
        c = self.config
        attention = SelfAttention(c.width, Heads.of(c.width, c.heads), qkv_bias=c.qkv_bias, dropout=c.attention_dropout)
        feed_forward = FeedForward(c.width, c.ff or 4 * c.width, c.activation, dropout=c.dropout)
        return BLOCKS[c.norm](attention, feed_forward, self._norm, dropout=c.dropout)

    def tokens(self, images: Tensor) -> Tensor:
        """images (B,C,H,W) -> (B,N,width): every token behind the last block (and its norm, where it stands there)."""
        self._check_images(images)
        return self.encoder(self.input(images), Pass())

    def hidden(self, images: Tensor) -> Tensor:
        """images (B,C,H,W) -> (B,width): what the head reads."""
        self._check_images(images)
        by_class_token = self.config.pooling == "cls"
        shorten = by_class_token and self.path == "fused" and not recording()
        x = self.encoder(
            self.input(images), Pass(), rows=1 if shorten else None
        )  # exact: nothing else reads those rows
        pooled = tap("pooled", x[:, 0] if by_class_token else x.mean(1))
        return pooled if self.pooled_norm is None else self.pooled_norm(pooled)

    def head(self, hidden: Tensor) -> Tensor:
        """(B,width) -> logits (B,num_classes)."""
        return tap("logits", self.output(hidden))

    def _check_images(self, images: Tensor) -> None:
        expected = (self.config.channels, *self.config.image)  # pyright: ignore[reportGeneralTypeIssues]
        if images.ndim != 4 or tuple(images.shape[1:]) != expected:
            raise ClearheadError(
                f"images must have shape (batch, {', '.join(map(str, expected))}), not {tuple(images.shape)}"
            )

    def initialise(self, random: Generator | None = None) -> None:
        """As the authors' code: Xavier in the blocks (q, k, v each as if alone), LeCun for patches, a head of zeros."""
        for name, weight in self.named_parameters():
            if "norm" in name:
                init.constant(weight, 1.0 if name.endswith("weight") else 0.0)
            elif name.endswith(("up.bias", "down.bias")):
                init.normal(weight, 1e-6, random)
            elif name.endswith("bias") or name.startswith("output") or name.endswith("class_token"):
                init.constant(weight, 0.0)
            elif "positions" in name:
                init.normal(weight, self.config.position_std, random)
            elif name.startswith("input.project"):
                init.lecun_normal(weight, random)
            else:
                init.xavier_uniform(weight, random, parts=3 if "qkv" in name else 1)

    def example(self, batch: int = 2, random: Generator | None = None) -> tuple[Tensor, ...]:
        c = self.config
        return (torch.randn(batch, c.channels, *c.image, generator=random).to(self.device, self.dtype),)  # pyright: ignore


SIZES = {
    "vit-ti16": ViTConfig(width=192, heads=3),
    "vit-s16": ViTConfig(width=384, heads=6),
    "vit-b16": ViTConfig(),
    "vit-b32": ViTConfig(patch=32),
    "vit-l16": ViTConfig(width=1024, layers=24, heads=16),
    "vit-h14": ViTConfig(patch=14, width=1280, layers=32, heads=16),
    "vit-c10": ViTConfig(image=32, patch=4, width=256, heads=4, pooling="mean", num_classes=10),
    "vit-c100": ViTConfig(image=32, patch=4, width=256, heads=4, pooling="mean", num_classes=100),
}

PAPER = {"vit-b16": "86M", "vit-l16": "307M", "vit-h14": "632M"}

FAMILY = Family(
    name="vit",
    config=ViTConfig,
    model=ViT,
    sizes=SIZES,
    shrunken=ViTConfig(image=(12, 8), patch=4, width=24, layers=2, heads=3, num_classes=5),
    paper=PAPER,
)
