"""Where a token stands: sinusoids (Vaswani et al. 2017), also in 2-D for patches, T5's buckets, rotary angles."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Table = Callable[[], Tensor]


def sinusoidal(length: int, width: int, *, base: float = 10000.0, half_split: bool = False, start: int = 0) -> Tensor:
    """P (length, width): p(pos, 2i) = sin(pos / base^(2i/width)), p(pos, 2i+1) = cos of the same angle.

    `half_split` puts all sines before all cosines, as Marian and tensor2tensor do.
    """
    angle = _angles(torch.arange(start, start + length, dtype=torch.float64), width, base)
    if half_split:
        return torch.cat([angle.sin(), angle.cos()], -1)[:, :width].float()
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)[:, :width].float()


def _angles(position: Tensor, width: int, base: float) -> Tensor:
    return position[:, None] / base ** (torch.arange(0, width, 2, dtype=torch.float64) / width)


def sinusoidal_2d(rows: int, columns: int, width: int, *, base: float = 10000.0) -> Tensor:
    """(rows * columns, width): the first half of the features says the row, the second half the column."""
    if width % 4:
        raise ValueError(f"2-D sinusoids need a width that 4 divides, not {width}")
    y = sinusoidal(rows, width // 2, base=base).repeat_interleave(columns, 0)
    x = sinusoidal(columns, width // 2, base=base).repeat(rows, 1)
    return torch.cat([y, x], -1)


def relative_buckets(
    offset: Tensor, *, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
) -> Tensor:
    """T5: key position minus query position -> bucket number. Near offsets have one each, far ones share."""
    half = buckets // 2 if bidirectional else buckets
    side = (offset > 0).long() * half if bidirectional else torch.zeros_like(offset)
    distance = offset.abs() if bidirectional else (-offset).clamp(min=0)
    exact = half // 2
    log = (distance.clamp(min=1).float() / exact).log() / math.log(max_distance / exact) * (half - exact)
    far = (exact + log.long()).clamp(max=half - 1)
    return side + torch.where(distance < exact, distance, far)


def rotary_angles(positions: Tensor, width: int, *, base: float = 10000.0) -> Tensor:
    """positions (...) -> (..., width/2): the angle by which each pair of features is turned at that position."""
    return positions[..., None].float() * base ** (-torch.arange(0, width, 2, device=positions.device).float() / width)


def rotary_angles_2d(rows: int, columns: int, width: int, *, base: float = 100.0) -> Tensor:
    """(rows * columns, width/2): half of the pairs turn with the row, half with the column."""
    return grid_angles(torch.arange(rows * columns), columns, width, base=base)


def grid_angles(
    patches: Tensor, columns: int, width: int, *, base: float = 100.0, steps: tuple[float, float] = (1, 1)
) -> Tensor:
    """The same for these patches (...) of a picture that has so many columns of them: (..., width/2).

    From one row to the next, and from one column to the next, the position grows by `steps`.
    """
    row, column = patches.div(columns, rounding_mode="floor") * steps[0], patches % columns * steps[1]
    return torch.cat([rotary_angles(at, width // 2, base=base) for at in (row, column)], -1)


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Turn the pairs (x_i, x_{i + width/2}) of x (..., L, width) by angles (L, width/2): RoPE, Su et al. 2021."""
    return turned(x, turns(angles))


def turns(angles: Tensor) -> Tensor:
    """angles (..., width/2) -> (..., 2, width): what x is multiplied with, and what x with its halves exchanged."""
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)], -2)


def turned(x: Tensor, turns: Tensor) -> Tensor:
    """x (..., L, width) by what `turns` gave for (..., L). Exchanged by rolling: a compiler fuses that, and no cat."""
    own, other = turns.unbind(-2)
    wide = x.float()
    return (wide * own + wide.roll(x.shape[-1] // 2, -1) * other).to(x.dtype)
