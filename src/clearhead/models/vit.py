"""ViT: an image as a sentence of patches, read by a Transformer encoder, classified from [CLS] or the mean.

Paper: Dosovitskiy et al. 2021. Departures from Vaswani et al. 2017: no decoder, norms before their layers and one
behind the last, exact GELU, learned positions (sinusoidal ones, by patch number or 2-D, are options, and so are none).
Patches that overlap (`stride` smaller than `patch`), mean pooling and 2-D rotary positions are options of ours.

CCT (Hassani et al. 2021) is a ViT of other parts: a convolution cuts the picture into rows, the rows' mean has learned
weights, and in a block the stream itself goes through the second norm, as the authors' code has it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from ..errors import ClearheadError
from ..layers import (
    BLOCKS,
    Block,
    CompactBlock,
    ConvolutionInput,
    FeedForward,
    FirstRow,
    FixedPositions,
    GridRotary,
    Heads,
    LayerNorm,
    LearnedPositions,
    Linear,
    MeanOfRows,
    Pass,
    PatchInput,
    PictureInput,
    SelfAttention,
    SequencePooling,
    Stack,
)
from ..ops import ACTIVATIONS, Path, init, positions
from ..trace import recording, tap
from .base import Config, Family, Model

POSITIONS = ("learned", "sinusoidal", "sinusoidal-2d", "none")
TOKENIZERS = ("patches", "convolution")
POOLINGS: dict[str, Callable[[int], nn.Module]] = {
    "cls": lambda width: FirstRow(),
    "mean": lambda width: MeanOfRows(),
    "sequence": SequencePooling,
}
NORMS = {**BLOCKS, "compact": CompactBlock}
Size = int | tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class ViTConfig(Config):
    """image, patch and stride are one number or (height, width); ff is 4 x width and stride is patch unless given.

    tokenizer    "patches": flattened and projected; "convolution": CCT's, a row for every 2 x 2 pixels (`patch` is 2)
    norm         of a block: "pre", "post", or "compact", which is CCT's
    pooling      "cls": a learned token in front is read; "mean": there is none, the patches' mean is read; "sequence":
                 their mean with learned weights
    final_norm   "tokens": the last norm stands before the pooling; "pooled": behind it (timm's average pooling)
    rotary_base  2-D rotary positions beside `positions`, their wavelengths from 2 pi to nearly 2 pi times this; or None
    rotary_span  how many units of them a picture's height and width are; None: as many as there are patches

    How a new model starts:
    start         "vit" and "cct": as the authors' code; "scaled": with parts that add little to the stream at first
    position_std  how widely learned positions spread: wider ones learn small pictures much faster
    locality      a constant in the biases of q and k, from 0 in the first head to this in the last: rotary positions
                  turn it into a preference for near patches, learned on from there
    """

    image: Size = (224, 224)
    patch: Size = (16, 16)
    stride: Size | None = None
    tokenizer: str = "patches"
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
    rotary_base: float | None = None
    rotary_span: float | None = None
    dropout: float = 0.0
    attention_dropout: float = 0.0
    start: str = "vit"
    position_std: float = 0.02
    locality: float = 0.0

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
        self.require_choice("norm", NORMS)
        self.require_choice("tokenizer", TOKENIZERS)
        self.require_choice("start", STARTS)
        self.require_choice("pooling", POOLINGS)
        self.require_choice("final_norm", ("tokens", "pooled"))
        self.require_choice("positions", POSITIONS)
        self.require(self.width % self.heads == 0, f"{self.heads} heads don't divide a width of {self.width}")
        self.require(self.norm_eps > 0, f"norm_eps must be above 0, not {self.norm_eps}")
        self.require(self.position_std > 0, f"position_std must be above 0, not {self.position_std}")
        self._check_patches()
        self._check_positions()
        if self.tokenizer == "convolution":
            step = ConvolutionInput.STEP
            even = self.patch == (step, step) and self.stride in (None, self.patch)
            self.require(even, f"a convolution gives a row for {step} x {step} pixels: set patch to {step}")
            self.require(self.pooling != "cls", "a convolution has no [CLS] in front: set pooling to sequence or mean")

    def _check_positions(self) -> None:
        flat = self.positions == "sinusoidal-2d" or self.start == "scaled"
        self.require(not flat or self.width % 4 == 0, f"2-D positions need a width that 4 divides, not {self.width}")
        if self.rotary_base is not None:
            head = self.width // self.heads
            self._require_above("rotary_base", 1)
            self.require(head % 4 == 0, f"2-D rotary positions need heads of a width that 4 divides, not {head}")
        if self.rotary_span is not None:
            self._require_above("rotary_span", 0)
            self.require(self.rotary_base is not None, "rotary_span needs rotary_base: it says how far they turn")
        self.require(0 <= self.locality < math.inf, f"locality must be 0 or more, not {self.locality}")
        turned = self.rotary_base is not None and self.qkv_bias
        self.require(turned or not self.locality, "locality needs rotary_base and qkv_bias: it starts in their biases")

    def _require_above(self, name: str, least: int) -> None:
        value = getattr(self, name)
        number = isinstance(value, int | float) and not isinstance(value, bool) and least < value < math.inf
        self.require(number, f"{name} must be a number above {least}, or none, not {value!r}")

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
    def patches(self) -> int:
        rows, columns = self.grid
        return rows * columns

    @property
    def prefix(self) -> int:
        """How many rows stand before the patches."""
        return int(self.pooling == "cls")

    @property
    def tokens(self) -> int:
        return self.prefix + self.patches


class ViT(Model):
    family = "vit"
    takes = ("image",)
    config: ViTConfig

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        c = self.config = config
        self.input = self._input()
        on_tokens = c.final_norm == "tokens"
        self.encoder = Stack((self._block() for _ in range(c.layers)), self._norm() if on_tokens else None)
        self.pooling = POOLINGS[c.pooling](c.width)
        self.pooled_norm = None if on_tokens else self._norm()
        self.output = Linear(c.width, c.num_classes)
        self.path: Path = "fused"
        self.kept_tokens: int | None = None

    @property
    def catalogue(self) -> str:
        return "cct" if self.config.tokenizer == "convolution" else self.family

    def _input(self) -> PictureInput:
        c = self.config
        if c.tokenizer == "convolution":
            return ConvolutionInput(c.channels, c.width, self._positions(), dropout=c.dropout)
        patch: tuple[int, int] = c.patch  # pyright: ignore[reportAssignmentType]
        with_class = c.pooling == "cls"
        return PatchInput(
            patch, c.step, c.channels, c.width, self._positions(), class_token=with_class, dropout=c.dropout
        )

    def _positions(self) -> nn.Module | None:
        c = self.config

        def grid_table() -> Tensor:
            table = positions.sinusoidal_2d(*c.grid, c.width)
            return torch.cat([torch.zeros(c.prefix, c.width), table])  # [CLS] stands nowhere

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
        heads, turned = Heads.of(c.width, c.heads), None
        if c.rotary_base is not None:
            turned = GridRotary(*c.grid, heads.key, c.rotary_base, prefix=c.prefix, span=c.rotary_span)
        attention = SelfAttention(c.width, heads, qkv_bias=c.qkv_bias, dropout=c.attention_dropout, rotary=turned)
        feed_forward = FeedForward(c.width, c.ff or 4 * c.width, c.activation, dropout=c.dropout)
        return NORMS[c.norm](attention, feed_forward, self._norm, dropout=c.dropout)

    def keep_tokens(self, count: int | None) -> None:
        """In training only so many patches of each picture are computed, drawn anew each time; None: all of them."""
        patches = self.config.patches
        if count is not None and not 1 <= count <= patches:
            raise ClearheadError(f"a picture has {patches} patches: from 1 to all of them can be kept, not {count}")
        self.kept_tokens = None if count == patches else count

    def _drawn(self, images: Tensor) -> Tensor | None:
        """Which patches of each picture go on, (B,K); None: all."""
        if not self.training or self.kept_tokens is None:
            return None
        lots = torch.rand(len(images), self.config.patches, device=images.device)
        return lots.topk(self.kept_tokens, 1, sorted=False).indices

    def _shared(self, at: Tensor | None) -> Pass:
        """Where the rows stand, for rotary layers, if not all are there."""
        if at is None or self.config.rotary_base is None:
            return Pass()
        before = torch.arange(self.config.prefix, device=at.device).expand(len(at), -1)
        return Pass(positions=torch.cat([before, at + self.config.prefix], 1))

    def tokens(self, images: Tensor) -> Tensor:
        """images (B,C,H,W) -> (B,N,width): every token behind the last block (and its norm, where it stands there)."""
        self._check_images(images)
        return self.encoder(self.input(images), Pass())

    def hidden(self, images: Tensor) -> Tensor:
        """images (B,C,H,W) -> (B,width): what the head reads."""
        self._check_images(images)
        at = self._drawn(images)
        # exact: nothing else reads those rows
        shorten = self.config.pooling == "cls" and self.path == "fused" and not recording()
        return self._pooled(self.encoder(self.input(images, at), self._shared(at), rows=1 if shorten else None))

    def _pooled(self, x: Tensor) -> Tensor:
        pooled = tap("pooled", self.pooling(x))
        return pooled if self.pooled_norm is None else self.pooled_norm(pooled)

    def halfway(self, images: Tensor, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        """In training with some of the patches (`keep_tokens`): what the head reads, the patches' rows (B,K,width)
        behind so many blocks, and which patches these are (B,K)."""
        self._check_images(images)
        at, norm = self._drawn(images), self.encoder.norm
        if at is None:
            raise ClearheadError("all patches are there: this is for training with some of them")
        shared = self._shared(at)
        below = self.encoder.some(self.input(images, at), shared, 0, layer)
        rows = self.encoder.some(below, shared, layer)
        return self._pooled(rows if norm is None else norm(rows)), below[:, self.config.prefix :], at

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
        """Every weight once, as `start` says; then the heads' preference for near patches."""
        for name, weight in self.named_parameters():
            STARTS[self.config.start](self.config, name, weight, random)
        if self.config.locality:
            for name, weight in self.named_parameters():
                if name.endswith("qkv.bias"):
                    _prefer_near(self.config, weight)

    def example(self, batch: int = 2, random: Generator | None = None) -> tuple[Tensor, ...]:
        c = self.config
        return (torch.randn(batch, c.channels, *c.image, generator=random).to(self.device, self.dtype),)  # pyright: ignore


def start_as_vit(c: ViTConfig, name: str, weight: Tensor, random: Generator | None) -> None:
    """The authors' code: Xavier in the blocks (q, k, v each as if alone), LeCun for patches, a head of zeros."""
    if "norm" in name:
        init.constant(weight, 1.0 if name.endswith("weight") else 0.0)
    elif name.endswith(("up.bias", "down.bias")):
        init.normal(weight, 1e-6, random)
    elif name.endswith("bias") or name.startswith("output") or name.endswith("class_token"):
        init.constant(weight, 0.0)
    elif "positions" in name:
        init.normal(weight, c.position_std, random)
    elif name.startswith("input.project"):
        init.lecun_normal(weight, random)
    else:
        init.xavier_uniform(weight, random, parts=3 if "qkv" in name else 1)


def start_as_cct(c: ViTConfig, name: str, weight: Tensor, random: Generator | None) -> None:
    """The authors' code: Kaiming for the convolution, narrow normals for every other product."""
    if "norm" in name:
        init.constant(weight, 1.0 if name.endswith("weight") else 0.0)
    elif name.endswith(("bias", "class_token")):
        init.constant(weight, 0.0)
    elif "positions" in name:
        init.normal(weight, c.position_std, random)
    else:
        init.normal(weight, math.sqrt(2 / weight.shape[1]) if name.startswith("input.project") else 0.02, random)


def start_scaled(c: ViTConfig, name: str, weight: Tensor, random: Generator | None) -> None:
    """Variance 1/fan-in, what a layer adds divided by sqrt(2 layers), positions from 2-D sinusoids, a head of zeros."""
    if "norm" in name:
        init.constant(weight, 1.0 if name.endswith("weight") else 0.0)
    elif "positions" in name:
        with torch.no_grad():
            weight[c.prefix :].copy_(positions.sinusoidal_2d(*c.grid, c.width) * (c.position_std * math.sqrt(2)))
            weight[: c.prefix].zero_()
    elif name.endswith(("bias", "class_token")) or name.startswith("output"):
        init.constant(weight, 0.0)
    else:
        adds = name.endswith(("attention.out.weight", "feed_forward.down.weight"))
        init.normal(weight, math.sqrt(1 / weight.shape[1] / (2 * c.layers if adds else 1)), random)


Start = Callable[[ViTConfig, str, Tensor, Generator | None], None]
STARTS: dict[str, Start] = {"vit": start_as_vit, "cct": start_as_cct, "scaled": start_scaled}


@torch.no_grad()
def _prefer_near(c: ViTConfig, bias: Tensor) -> None:
    """The same constant in the first half of q and of k: turned, their product is largest where they stand close."""
    strength = torch.linspace(0, c.locality, c.heads)
    parts = bias.view(3, c.heads, -1)
    parts[:2, :, : parts.shape[2] // 2] = strength[:, None]


SIZES = {
    "vit-ti16": ViTConfig(width=192, heads=3),
    "vit-s16": ViTConfig(width=384, heads=6),
    "vit-b16": ViTConfig(),
    "vit-b32": ViTConfig(patch=32),
    "vit-l16": ViTConfig(width=1024, layers=24, heads=16),
    "vit-h14": ViTConfig(patch=14, width=1280, layers=32, heads=16),
    "vit-c10": ViTConfig(image=32, patch=4, width=256, heads=4, pooling="mean", num_classes=10),
    "vit-c100": ViTConfig(image=32, patch=4, width=256, heads=4, pooling="mean", num_classes=100),
    "cct-7-3x1": ViTConfig(
        image=32,
        patch=2,
        tokenizer="convolution",
        width=256,
        layers=7,
        heads=4,
        ff=512,
        norm="compact",
        norm_eps=1e-5,
        qkv_bias=False,
        pooling="sequence",
        attention_dropout=0.1,
        start="cct",
        position_std=0.2,
        num_classes=10,
    ),
}

PAPER = {"vit-b16": "86M", "vit-l16": "307M", "vit-h14": "632M", "cct-7-3x1": "3.76M"}

FAMILY = Family(
    name="vit",
    config=ViTConfig,
    model=ViT,
    sizes=SIZES,
    shrunken=ViTConfig(image=(12, 8), patch=4, width=24, layers=2, heads=3, num_classes=5),
    paper=PAPER,
)
