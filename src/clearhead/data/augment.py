"""Augmentation in batches, on whatever device the pictures are: crop, flip, RandAugment or TrivialAugment, erasing.

It has two halves, so that the second can be compiled: `draw` takes all random numbers from a generator, `apply` is a
pure function of pixels and these, made of a few steps (STEPS), each of which is compiled on its own and once. `augment`
is both halves. Mixup and CutMix, which change the targets too, are in `mix`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import torch
from torch import Generator, Tensor

from ..errors import ClearheadError, near
from .augment_ops import RAND, WIDE, one_each, slots
from .crops import box_mask, flip, window

OPS = ("rand", "varied", "trivial")
PADDINGS = ("fill", "reflect")
ERASE_AREA = (0.02, 1 / 3)
ERASE_ASPECT = (0.3, 1 / 0.3)


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """What is done to pictures while training. The defaults do nothing."""

    area: tuple[float, float] | None = None
    """Random resized crop: from the least to the largest share of the picture that is kept."""
    crop: int = 0
    """Random crop: by how many pixels at most the picture is moved each way."""
    padding: str = "fill"
    """What is beyond the border then: "fill", or "reflect" for a mirror image."""
    flip: float = 0.0
    """How often left and right are exchanged."""
    ops: str | None = None
    """"rand": operations at just the magnitude (RandAugment); "varied": these at any strength up to it; "trivial":
    at any strength too, in wider ranges (TrivialAugment). None: no operations."""
    ops_count: int = 1
    magnitude: float = 1.0
    """From 0 to 1, of the ranges that the policy's authors chose. RandAugment's usual 9 of 30 is 0.3."""
    erase: float = 0.0
    """How often a box is filled with noise."""
    mixup: float = 0.0
    """How often a picture is blended with another one, by a weight from Beta(mixup_alpha, mixup_alpha)."""
    mixup_alpha: float = 0.8
    cutmix: float = 0.0
    """How often a box is taken from another picture; its size by Beta(cutmix_alpha, cutmix_alpha)."""
    cutmix_alpha: float = 1.0
    fill: float = 0.0
    """From 0 (black) to 1: what is beyond a picture's border."""

    def __post_init__(self) -> None:
        for name in ("flip", "erase", "mixup", "cutmix", "magnitude", "fill"):
            _require(_within(getattr(self, name), 0, 1), f"{name} must be from 0 to 1, not {getattr(self, name)!r}")
        for name in ("mixup_alpha", "cutmix_alpha"):
            value = getattr(self, name)
            _require(_within(value, 0.05, 100), f"{name} must be from 0.05 to 100, not {value!r}")
        for name, least in (("crop", 0), ("ops_count", 1)):
            value = getattr(self, name)
            _require(
                type(value) is int and value >= least, f"{name} must be a whole number from {least}, not {value!r}"
            )
        for name, known in (("ops", OPS), ("padding", PADDINGS)):
            value = getattr(self, name)
            unused = name == "ops" and value is None
            _require(unused or value in known, f"{name} must be one of {', '.join(known)}, not {value!r}")
        _require(self.mixup + self.cutmix <= 1, f"mixup {self.mixup} and cutmix {self.cutmix} are more than 1 together")
        area = self.area
        paired = area is None or (isinstance(area, tuple) and len(area) == 2 and all(_within(a, 0.01, 1) for a in area))
        _require(paired and (area is None or area[0] <= area[1]), f"area must be two shares up to 1, not {area!r}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """From a run's settings; a key that is not known is an error that names the nearest."""
        known = [field.name for field in fields(cls)]
        for name in values:
            _require(name in known, f"no augmentation is called {name!r}{near(name, known)}")
        given: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in values.items()}
        return cls(**given)

    @property
    def mixes(self) -> bool:
        """Whether pictures, and so targets, are mixed."""
        return self.mixup + self.cutmix > 0


def _within(value: Any, low: float, high: float) -> bool:
    return type(value) in (int, float) and low <= value <= high


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ClearheadError(message)


class Draws(NamedTuple):
    """Every random number that one batch needs; None where a step is off. N: operations for each picture."""

    moves: Tensor | None  # (2,B) whole numbers, down and right
    flips: Tensor | None  # (B,) bool
    orders: Tensor | None  # (N,slots) permutations, see augment_ops.one_each
    strengths: Tensor | None  # (N,slots) 0 to 1
    signs: Tensor | None  # (N,slots) -1 or 1
    boxes: Tensor | None  # (B,4) what is erased; empty boxes where nothing is
    noise: Tensor | None  # (B,C,H,W) 0 to 1


def augment(pixels: Tensor, settings: Augmentation, generator: Generator) -> Tensor:
    """A batch (B,C,H,W), bytes or floats from 0 to 1, augmented; the result has the same type."""
    return apply(pixels, settings, draw(pixels, settings, generator))


def draw(pixels: Tensor, settings: Augmentation, generator: Generator) -> Draws:
    """The random numbers for a batch of this shape, on its device."""
    batch, _, height, width = pixels.shape
    place = {"generator": generator, "device": generator.device}
    moves = flips = orders = strengths = signs = boxes = noise = None
    if settings.crop:
        moves = torch.randint(-settings.crop, settings.crop + 1, (2, batch), **place)
    if settings.flip:
        flips = torch.rand(batch, **place) < settings.flip
    if settings.ops is not None:
        shape = (settings.ops_count, slots(batch))
        orders = torch.rand(shape, **place).argsort(1)
        always = settings.ops == "rand"
        strengths = torch.ones(shape, device=generator.device) if always else torch.rand(shape, **place)
        strengths = strengths * settings.magnitude
        signs = torch.randint(0, 2, shape, **place) * 2.0 - 1
    if settings.erase:
        boxes = _erasures(batch, height, width, settings.erase, generator)
        noise = torch.rand(pixels.shape, **place)
    drawn = (moves, flips, orders, strengths, signs, boxes, noise)
    return Draws(*(one if one is None else one.to(pixels.device) for one in drawn))


def _erasures(batch: int, height: int, width: int, chance: float, generator: Generator) -> Tensor:
    """Boxes of whole numbers inside the picture: a share of its area, any aspect in a range, anywhere."""
    lot, area, aspect, down, across = torch.rand(5, batch, generator=generator, device=generator.device)
    area = (ERASE_AREA[0] + (ERASE_AREA[1] - ERASE_AREA[0]) * area) * height * width
    low, high = (math.log(edge) for edge in ERASE_ASPECT)
    aspect = torch.exp(low + (high - low) * aspect)
    tall = (area * aspect).sqrt().round().clamp(1, height)
    wide = (area / tall).round().clamp(1, width)
    top, left = (down * (height - tall + 1)).floor(), (across * (width - wide + 1)).floor()
    return torch.where((lot < chance)[:, None], torch.stack([top, left, tall, wide], 1), 0.0)


def _moved(pixels: Tensor, moves: Tensor | None, flips: Tensor | None, padding: str, fill: float) -> Tensor:
    if moves is not None:
        pixels = window(pixels, moves[0], moves[1], padding, fill)
    return pixels if flips is None else flip(pixels, flips)


def _erased(pixels: Tensor, boxes: Tensor, noise: Tensor) -> Tensor:
    return torch.where(box_mask(boxes, *pixels.shape[-2:]), noise, pixels)


Steps = tuple[Callable[..., Tensor], Callable[..., Tensor], Callable[..., Tensor]]
STEPS: Steps = (_moved, one_each, _erased)


def compiled_steps() -> Steps:
    """The operations are one compiled function, however often they are done to a batch."""
    moved, operated, erased = (torch.compile(step) for step in STEPS)
    return moved, operated, erased


def apply(pixels: Tensor, settings: Augmentation, draws: Draws, steps: Steps = STEPS) -> Tensor:
    """What `draws` says, done to a batch. The same draws give the same pictures; `steps` are STEPS or compiled ones."""
    moved, operated, erased = steps
    if draws.moves is not None or draws.flips is not None:
        pixels = moved(pixels, draws.moves, draws.flips, settings.padding, settings.fill)
    if draws.orders is None and draws.boxes is None:
        return pixels
    floats = pixels if pixels.is_floating_point() else pixels / 255
    if draws.orders is not None and draws.strengths is not None and draws.signs is not None:
        ranges = WIDE if settings.ops == "trivial" else RAND
        for order, strength, sign in zip(draws.orders, draws.strengths, draws.signs, strict=True):
            floats = operated(floats, order, strength, sign, ranges, settings.fill)
    if draws.boxes is not None and draws.noise is not None:
        floats = erased(floats, draws.boxes, draws.noise)
    return floats if pixels.is_floating_point() else (floats * 255).round().to(torch.uint8)
