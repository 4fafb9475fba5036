"""The usual operations on pictures, for a whole batch at once: each picture has a parameter of its own.

Shapes: pixels (B,C,H,W) floats from 0 to 1, parameters (B,). The operations are Pillow's (ImageOps, ImageEnhance,
Image.transform with bilinear look-up) without its rounding to bytes. A parameter that means "nothing" changes no bit.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

LUMA = (0.299, 0.587, 0.114)


@dataclass(frozen=True)
class Ranges:
    """How far each operation goes at full strength."""

    degrees: float
    shear: float
    shift_share: float  # of the edge, ...
    shift_pixels: float  # ... and no further than this
    enhance: float  # brightness and its kin go from 1 - this to 1 + this
    bits: int  # that posterize drops


RAND = Ranges(30, 0.3, 0.45, math.inf, 0.9, 4)  # RandAugment (Cubuk and others 2019)
WIDE = Ranges(135, 0.99, 1.0, 32, 0.99, 6)  # TrivialAugment's wide ones (Müller and Hutter 2021)


Row = tuple[Tensor, Tensor, Tensor]


def rotation(degrees: Tensor) -> tuple[Row, Row]:
    """The map of a turn about the middle, counter-clockwise. All maps here are for `warp`."""
    angle = torch.deg2rad(degrees)
    cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    return (cos, -sin, zero), (sin, cos, zero)


def shear_x(slope: Tensor) -> tuple[Row, Row]:
    one, zero = torch.ones_like(slope), torch.zeros_like(slope)
    return (one, slope, zero), (zero, one, zero)


def shear_y(slope: Tensor) -> tuple[Row, Row]:
    one, zero = torch.ones_like(slope), torch.zeros_like(slope)
    return (one, zero, zero), (slope, one, zero)


def shift_x(distance: Tensor) -> tuple[Row, Row]:
    """To the left by so many pixels."""
    one, zero = torch.ones_like(distance), torch.zeros_like(distance)
    return (one, zero, distance), (zero, one, zero)


def shift_y(distance: Tensor) -> tuple[Row, Row]:
    """Upwards by so many pixels."""
    one, zero = torch.ones_like(distance), torch.zeros_like(distance)
    return (one, zero, zero), (zero, one, distance)


def warp(pixels: Tensor, row_x: Row, row_y: Row, fill: float) -> Tensor:
    """Bilinear look-up: an output point (x, y, 1), measured from the middle, comes from (row_x, row_y) times it."""
    height, width = pixels.shape[-2:]
    x = (torch.arange(width, device=pixels.device) + 0.5 - width / 2).view(1, 1, -1)
    y = (torch.arange(height, device=pixels.device) + 0.5 - height / 2).view(1, -1, 1)
    from_x, from_y = (a[:, None, None] * x + b[:, None, None] * y + c[:, None, None] for a, b, c in (row_x, row_y))
    from_x, from_y = from_x + width / 2, from_y + height / 2
    inside = (from_x >= 0) & (from_x < width) & (from_y >= 0) & (from_y < height)
    left, top = (from_x - 0.5).floor(), (from_y - 0.5).floor()
    share_x, share_y = (from_x - 0.5 - left).unsqueeze(1), (from_y - 0.5 - top).unsqueeze(1)

    def at(across: Tensor, down: Tensor) -> Tensor:
        flat = down.clamp(0, height - 1).long() * width + across.clamp(0, width - 1).long()
        index = flat.flatten(1).unsqueeze(1).expand(-1, pixels.shape[1], -1)
        return pixels.flatten(2).gather(2, index).view_as(pixels)

    above = torch.lerp(at(left, top), at(left + 1, top), share_x)
    below = torch.lerp(at(left, top + 1), at(left + 1, top + 1), share_x)
    return torch.where(inside.unsqueeze(1), torch.lerp(above, below, share_y), fill)


def brightness(pixels: Tensor, factor: Tensor) -> Tensor:
    return _away_from(torch.zeros_like(pixels), pixels, factor)


def contrast(pixels: Tensor, factor: Tensor) -> Tensor:
    return _away_from(_grey(pixels).mean((1, 2, 3), keepdim=True), pixels, factor)


def colour(pixels: Tensor, factor: Tensor) -> Tensor:
    return _away_from(_grey(pixels), pixels, factor)


def sharpness(pixels: Tensor, factor: Tensor) -> Tensor:
    return _away_from(_smooth(pixels), pixels, factor)


def _away_from(base: Tensor, pixels: Tensor, factor: Tensor) -> Tensor:
    """Between `base` (factor 0) and the picture (1), or beyond it."""
    return (pixels + (factor - 1)[:, None, None, None] * (pixels - base)).clamp(0, 1)


def _grey(pixels: Tensor) -> Tensor:
    if pixels.shape[1] != 3:
        return pixels.mean(1, keepdim=True)
    red, green, blue = pixels.unbind(1)
    return (LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue).unsqueeze(1)


def _smooth(pixels: Tensor) -> Tensor:
    """Each inner pixel with its eight neighbours, itself five times; the border stays."""
    height, width = pixels.shape[-2:]
    if min(height, width) < 3:
        return pixels
    windows = [pixels[..., i : height - 2 + i, j : width - 2 + j] for i in range(3) for j in range(3)]
    smooth = pixels.clone()
    smooth[..., 1:-1, 1:-1] = (torch.stack(windows).sum(0) + 4 * windows[4]) / 13
    return smooth


def posterize(pixels: Tensor, dropped: Tensor) -> Tensor:
    """Without the lowest `dropped` of a byte's eight bits."""
    step = (2.0**dropped)[:, None, None, None]
    return torch.where(step > 1, ((pixels * 255).round() / step).floor() * step / 255, pixels)


def solarize(pixels: Tensor, threshold: Tensor) -> Tensor:
    """What is as bright as the threshold, or brighter, is turned into its negative."""
    return torch.where(pixels >= threshold[:, None, None, None], 1 - pixels, pixels)


def autocontrast(pixels: Tensor) -> Tensor:
    """Each channel stretched from black to white; one of a single value stays."""
    low, high = pixels.amin((2, 3), keepdim=True), pixels.amax((2, 3), keepdim=True)
    flat = high <= low
    return torch.where(flat, pixels, (pixels - low) / torch.where(flat, 1.0, high - low))


def equalize(pixels: Tensor) -> Tensor:
    """Each channel's bytes spread so that their histogram is flat, by Pillow's rule in whole numbers."""
    bytes_ = (pixels * 255).round().clamp(0, 255).long().flatten(2)
    ones = torch.ones_like(bytes_, dtype=torch.float32)
    counts = torch.zeros(*bytes_.shape[:2], 256, device=pixels.device).scatter_add(2, bytes_, ones)
    brightest = counts.gather(2, bytes_.amax(2, keepdim=True))
    step = ((bytes_.shape[2] - brightest) / 255).floor()
    below = counts.cumsum(2) - counts
    table = ((below + (step / 2).floor()) / step.clamp(min=1)).floor().clamp(0, 255)
    spread = (table.gather(2, bytes_) / 255).to(pixels.dtype).view_as(pixels)
    return torch.where((step >= 1).unsqueeze(3), spread, pixels)


# An operation at a strength from 0 (nothing) to 1 (as far as the ranges go), with a sign where it has two directions.
Operation = Callable[[Tensor, Tensor, Tensor, Ranges], Tensor]

COLOURS: dict[str, Operation] = {
    "identity": lambda x, m, s, r: x,
    "autocontrast": lambda x, m, s, r: autocontrast(x),
    "equalize": lambda x, m, s, r: equalize(x),
    "solarize": lambda x, m, s, r: solarize(x, (1 - m) * (256 / 255)),
    "colour": lambda x, m, s, r: colour(x, 1 + r.enhance * m * s),
    "posterize": lambda x, m, s, r: posterize(x, (r.bits * m).round()),
    "contrast": lambda x, m, s, r: contrast(x, 1 + r.enhance * m * s),
    "brightness": lambda x, m, s, r: brightness(x, 1 + r.enhance * m * s),
    "sharpness": lambda x, m, s, r: sharpness(x, 1 + r.enhance * m * s),
}

# What moves pixels differs by its map alone, made of strength, sign, ranges, height and width: one look-up serves all.
Map = Callable[[Tensor, Tensor, Ranges, int, int], tuple[Row, Row]]

MAPS: dict[str, Map] = {
    "rotate": lambda m, s, r, h, w: rotation(r.degrees * m * s),
    "shear_x": lambda m, s, r, h, w: shear_x(r.shear * m * s),
    "shear_y": lambda m, s, r, h, w: shear_y(r.shear * m * s),
    "shift_x": lambda m, s, r, h, w: shift_x(_farthest(r, w) * m * s),
    "shift_y": lambda m, s, r, h, w: shift_y(_farthest(r, h) * m * s),
}

# Their places decide which picture meets which: in another order a seed gives other pictures.
OPERATIONS: tuple[str, ...] = (
    "identity",
    "autocontrast",
    "equalize",
    "rotate",
    "solarize",
    "colour",
    "posterize",
    "contrast",
)
OPERATIONS += ("brightness", "sharpness", "shear_x", "shear_y", "shift_x", "shift_y")


def _farthest(ranges: Ranges, edge: int) -> float:
    return min(ranges.shift_share * edge, ranges.shift_pixels)


def slots(batch: int) -> int:
    """How many slots `one_each` deals out: the next multiple of the number of operations."""
    return math.ceil(batch / len(OPERATIONS)) * len(OPERATIONS)


def one_each(pixels: Tensor, order: Tensor, strength: Tensor, sign: Tensor, ranges: Ranges, fill: float) -> Tensor:
    """One operation for each picture: entry j of `order`, a permutation of `slots(B)`, gets number j modulo how many.

    So every picture meets every operation with the same chance, each operation works on its own pictures alone, and no
    shape depends on chance. Entries beyond the batch stand for pictures a second time, whose results are dropped.
    """
    size, shares = pixels.shape[2:], dict(zip(OPERATIONS, order.view(-1, len(OPERATIONS)).unbind(1), strict=True))
    maps = [make(strength[shares[name]], sign[shares[name]], ranges, *size) for name, make in MAPS.items()]
    row_x, row_y = (tuple(map(torch.cat, zip(*rows, strict=True))) for rows in zip(*maps, strict=True))
    moved = torch.cat([shares[name] for name in MAPS])
    results = [warp(pixels[moved % len(pixels)], row_x, row_y, fill)]  # pyright: ignore[reportArgumentType]
    for name, operation in COLOURS.items():
        share = shares[name]
        results.append(operation(pixels[share % len(pixels)], strength[share], sign[share], ranges))
    drawn = torch.cat([moved, *(shares[name] for name in COLOURS)])
    places = torch.empty_like(drawn).scatter_(0, drawn, torch.arange(len(drawn), device=drawn.device))
    return torch.cat(results)[places[: len(pixels)]]
