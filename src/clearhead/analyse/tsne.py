"""t-SNE, exactly (van der Maaten and Hinton 2008): points on a plane so that near ones stay near.

p_ij says how near two points are: a Gaussian around each, as wide as `perplexity` neighbours need, made symmetric.
q_ij says it on the plane: 1 / (1 + distance^2), over the sum of all. The plane's points move down the gradient of
KL(P || Q). As everyone does: from PCA, with P exaggerated twelvefold at first, momentum, and a gain for each number.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import ClearheadError
from .projections import checked_points, pca

MOST_POINTS = 2000  # every pair is computed in every step
EXAGGERATION = 12.0
EXAGGERATED_STEPS = 250
START = 1e-4  # how far the points spread at first; a hundredth of it is chance, which parts points that coincide
HALVINGS = 64
CLOSE = 1e-8  # to the entropy that a row should have
TINY = 1e-12


@dataclass(frozen=True)
class TSNE:
    """coordinates (n,2); `divergence` is KL(P || Q), what is left of the difference; perplexity as it was used."""

    coordinates: Tensor
    divergence: float
    perplexity: float


def tsne(
    points: Tensor,
    *,
    perplexity: float | None = None,
    steps: int = 1000,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> TSNE:
    """points (n,d), 4 to 2,000 of them, on a plane.

    perplexity  about how many neighbours a point has: 30, or a third of the points where they are few, unless given
    steps       how often all points move; `progress` is called with 1 after each
    """
    points = checked_points(points)
    count = len(points)
    if not 4 <= count <= MOST_POINTS:
        raise ClearheadError(f"t-SNE places 4 to {MOST_POINTS:,} points, not {count:,}: choose some, or use PCA")
    perplexity = min(30.0, (count - 1) / 3) if perplexity is None else float(perplexity)
    if not 1 <= perplexity < count:
        raise ClearheadError(f"perplexity is at least 1 and below the number of points ({count}), not {perplexity:g}")
    if type(steps) is not int or steps < 1:
        raise ClearheadError(f"at least one step is needed, not {steps!r}")
    nearness = affinities(points, perplexity).float()
    coordinates = _moved(nearness, _begun(points, seed), steps, progress)
    return TSNE(coordinates, divergence(nearness, coordinates), perplexity)


def affinities(points: Tensor, perplexity: float) -> Tensor:
    """P (n,n): how near each two points are; symmetric, sums to 1, zero on the diagonal."""
    squares = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist").square()
    conditional = _as_wide_as(squares, math.log(perplexity))
    both = conditional + conditional.T
    return both / both.sum()


def _as_wide_as(squares: Tensor, entropy: float) -> Tensor:
    """Rows exp(-beta_i d_ij^2) / sum, with a beta for each row that gives it this entropy, found by halving."""
    count = len(squares)
    itself = torch.eye(count, dtype=torch.bool)
    near = squares.masked_fill(itself, torch.inf).amin(1, keepdim=True)
    shifted = (squares - near).masked_fill(itself, torch.inf)  # the nearest neighbour at 0: nothing underflows
    low, high = torch.zeros(count, 1, dtype=squares.dtype), torch.full((count, 1), torch.inf, dtype=squares.dtype)
    beta = 1 / (squares.sum(1, keepdim=True) / (count - 1)).clamp(min=TINY)
    for _ in range(HALVINGS):
        rows = (-beta * shifted).exp()
        rows = rows / rows.sum(1, keepdim=True)
        over = torch.special.entr(rows).sum(1, keepdim=True) - entropy
        if over.abs().max() < CLOSE:
            break
        too_wide = over > 0
        low, high = torch.where(too_wide, beta, low), torch.where(too_wide, high, beta)
        beta = torch.where(high.isinf(), 2 * beta, (low + high) / 2)
    return rows


def _begun(points: Tensor, seed: int) -> Tensor:
    axes = min(2, *points.shape)
    start = torch.zeros(len(points), 2)
    start[:, :axes] = pca(points, axes).coordinates
    spread = start[:, 0].std().clamp(min=TINY)
    chance = torch.randn(len(points), 2, generator=torch.Generator().manual_seed(seed))
    return START * (start / spread + 0.01 * chance)


def _moved(nearness: Tensor, at: Tensor, steps: int, progress: Callable[[int], None]) -> Tensor:
    """Twice down the slope, each time from rest: first gathered by exaggeration, then as it is."""
    early = min(steps, EXAGGERATED_STEPS)
    at = _descended(nearness * EXAGGERATION, at, early, 0.5, progress)
    at = _descended(nearness, at, steps - early, 0.8, progress)
    return at - at.mean(0)


def _descended(nearness: Tensor, at: Tensor, steps: int, momentum: float, progress: Callable[[int], None]) -> Tensor:
    rate = max(len(at) / EXAGGERATION / 4, 50.0)
    speed, gains = torch.zeros_like(at), torch.ones_like(at)
    for _ in range(steps):
        slope = gradient(nearness, at)
        gains = torch.where(speed * slope < 0, gains + 0.2, gains * 0.8).clamp(min=0.01)
        speed = momentum * speed - rate * gains * slope
        at = at + speed
        progress(1)
    return at


def gradient(nearness: Tensor, at: Tensor) -> Tensor:
    """dKL/dy_i = 4 sum_j (p_ij - q_ij) (y_i - y_j) / (1 + |y_i - y_j|^2)."""
    kernel = _kernel(at)
    pull = (kernel * (-1 / kernel.sum())).add_(nearness).mul_(kernel)
    return 4 * (pull.sum(1, keepdim=True) * at - pull @ at)


def divergence(nearness: Tensor, at: Tensor) -> float:
    """KL(P || Q) = sum p log(p / q)."""
    nearness, kernel = nearness.double(), _kernel(at.double())
    shares = (kernel / kernel.sum()).clamp(min=TINY)
    return (torch.xlogy(nearness, nearness) - nearness * shares.log()).sum().item()


def _kernel(at: Tensor) -> Tensor:
    """1 / (1 + |y_i - y_j|^2), zero on the diagonal; over its sum it is Q. In place: most of a step goes into this."""
    distances = torch.cdist(at, at, compute_mode="donot_use_mm_for_euclid_dist")
    return distances.square_().add_(1).reciprocal_().fill_diagonal_(0.0)
