"""Cutting pictures, a whole batch at once: windows that may reach beyond the picture, flips, boxes, resized crops.

Shapes: pixels (B,C,H,W) of any number type, boxes (B,4) as top, left, height and width.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

ASPECTS = (3 / 4, 4 / 3)  # width to height of a random crop


def window(pixels: Tensor, top: Tensor, left: Tensor, padding: str, fill: float) -> Tensor:
    """A window of the picture's own size, moved by whole numbers (B,). Beyond the border: `fill`, or a mirror image."""
    height, width = pixels.shape[-2:]
    down = torch.arange(height, device=pixels.device) + top[:, None]
    across = torch.arange(width, device=pixels.device) + left[:, None]
    inside = ((down >= 0) & (down < height))[:, None, :, None] & ((across >= 0) & (across < width))[:, None, None, :]
    if padding == "reflect":
        down, across = _mirrored(down, height), _mirrored(across, width)
    down, across = down.clamp(0, height - 1), across.clamp(0, width - 1)
    rows = torch.arange(len(pixels), device=pixels.device).view(-1, 1, 1, 1)
    channels = torch.arange(pixels.shape[1], device=pixels.device).view(1, -1, 1, 1)
    found = pixels[rows, channels, down[:, None, :, None], across[:, None, None, :]]
    if padding == "reflect":
        return found
    outside = fill if pixels.is_floating_point() else round(fill * 255)
    return found.masked_fill(~inside, outside)


def _mirrored(index: Tensor, size: int) -> Tensor:
    return (size - 1) - ((size - 1) - index.abs()).abs()


def flip(pixels: Tensor, chosen: Tensor) -> Tensor:
    """Left to right where `chosen` (B,) is true."""
    return torch.where(chosen[:, None, None, None], pixels.flip(3), pixels)


def box_mask(boxes: Tensor, height: int, width: int) -> Tensor:
    """(B,1,H,W), true inside each box of whole numbers; what lies beyond the picture is cut off."""
    down, across = torch.arange(height, device=boxes.device), torch.arange(width, device=boxes.device)
    top, left, tall, wide = boxes[:, :, None].unbind(1)
    rows = (down >= top) & (down < top + tall)
    columns = (across >= left) & (across < left + wide)
    return (rows[:, :, None] & columns[:, None, :]).unsqueeze(1)


def random_boxes(numbers: Tensor, height: int, width: int, area: Sequence[float]) -> Tensor:
    """Boxes inside the picture from four numbers each between 0 and 1: how large a share of the area, aspect, place."""
    share = area[0] + (area[1] - area[0]) * numbers[:, 0]
    low, high = (math.log(aspect) for aspect in ASPECTS)
    aspect = torch.exp(low + (high - low) * numbers[:, 1])
    wide = (share * height * width * aspect).sqrt().clamp(max=width)
    tall = (share * height * width / aspect).sqrt().clamp(max=height)
    return torch.stack([(height - tall) * numbers[:, 2], (width - wide) * numbers[:, 3], tall, wide], 1)


def centre_box(height: int, width: int, share: float = 1.0) -> tuple[float, float, float, float]:
    """The middle square, its edge this share of the picture's shorter one."""
    edge = share * min(height, width)
    return (height - edge) / 2, (width - edge) / 2, edge, edge


def resized_crop(pixels: Tensor, boxes: Tensor, size: int) -> Tensor:
    """What is in each box, resized to a square as Pillow's bilinear filter does it (smoothed where it shrinks)."""
    height, width = pixels.shape[-2:]
    rows = _filter(boxes[:, 0], boxes[:, 2], size, height)
    columns = _filter(boxes[:, 1], boxes[:, 3], size, width)
    return torch.einsum("bsh,bchw,btw->bcst", rows, pixels, columns)


def _filter(start: Tensor, length: Tensor, size: int, edge: int) -> Tensor:
    """(B, size, edge): how much of each old pixel goes into each new one."""
    scale = (length / size).view(-1, 1, 1)
    middle = start.view(-1, 1, 1) + (torch.arange(size, device=start.device).view(1, -1, 1) + 0.5) * scale
    distance = (torch.arange(edge, device=start.device) + 0.5 - middle).abs() / scale.clamp(min=1)
    weight = (1 - distance).clamp(min=0)
    return weight / weight.sum(2, keepdim=True)
