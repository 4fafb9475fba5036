"""Which way brightness changes in each part of a picture: histograms of oriented gradients (Dalal and Triggs 2005)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

WAYS = 9  # of half a turn: brighter to the left or to the right is the same edge
NOISE = 0.1  # added to a cell's length, in the pixels' own scale: one without edges has none


def edges(images: Tensor, cell: tuple[int, int], beyond: tuple[int, int] = (0, 0)) -> Tensor:
    """(B,C,H,W) -> (B,C*WAYS,H/cell,W/cell): of each channel's cells how steep they are each way, nearly of length 1.

    A pixel's slope is the difference of its neighbours, and nothing across the border; it counts for one way alone. A
    cell counts so many pixels `beyond` itself on each side besides.
    """
    right = F.pad(images[..., 2:] - images[..., :-2], (1, 1))
    down = F.pad(images[..., 2:, :] - images[..., :-2, :], (0, 0, 1, 1))
    way = (torch.atan2(down, right) % math.pi * (WAYS / math.pi)).floor().clamp(max=WAYS - 1)
    own = way.unsqueeze(2) == torch.arange(WAYS, device=images.device).view(WAYS, 1, 1)
    steep = torch.where(own, torch.hypot(right, down).unsqueeze(2), 0.0)
    whole = (cell[0] + 2 * beyond[0], cell[1] + 2 * beyond[1])
    cells = F.avg_pool2d(steep.flatten(1, 2), whole, cell, beyond, divisor_override=1).unflatten(1, (-1, WAYS))
    return (cells / (torch.linalg.vector_norm(cells, dim=2, keepdim=True) + NOISE)).flatten(1, 2)
