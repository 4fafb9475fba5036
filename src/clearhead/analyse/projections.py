"""PCA: many features on the few axes along which the points differ most. By a singular value decomposition."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import ClearheadError


@dataclass(frozen=True)
class PCA:
    """Points (n,d) on `count` axes.

    coordinates  (n,count)
    shares       (count,) of the points' variance that lie along each axis
    axes         (count,d) of length 1; an axis's largest feature is positive, so that nothing is left to chance
    mean         (d,) what was taken off
    """

    coordinates: Tensor
    shares: Tensor
    axes: Tensor
    mean: Tensor

    def place(self, points: Tensor) -> Tensor:
        """Other points (m,d) on the same axes: (m,count)."""
        if points.ndim != 2 or points.shape[1] != len(self.mean):
            raise ClearheadError(f"the points have {len(self.mean)} features, not shape {tuple(points.shape)}")
        return ((points.double() - self.mean.double()) @ self.axes.double().T).float()


def pca(points: Tensor, count: int = 2) -> PCA:
    """points (n,d) -> their principal components. A point is mean + coordinates @ axes, as near as `count` axes can."""
    points = checked_points(points)
    most = min(points.shape)
    if type(count) is not int or not 1 <= count <= most:
        raise ClearheadError(f"{len(points)} points of {points.shape[1]} features have 1 to {most} axes, not {count!r}")
    mean = points.mean(0)
    _, lengths, axes = torch.linalg.svd(points - mean, full_matrices=False)
    variances = lengths.square()
    total = variances.sum()
    shares = variances / total if total > 0 else torch.zeros_like(variances)
    axes = axes[:count]
    axes = axes * axes.gather(1, axes.abs().argmax(1, keepdim=True)).sign()
    coordinates = (points - mean) @ axes.T
    return PCA(coordinates.float(), shares[:count].float(), axes.float(), mean.float())


def checked_points(points: Tensor) -> Tensor:
    """At least two points (n,d), finite, in double precision on the CPU."""
    if points.ndim != 2 or len(points) < 2 or points.shape[1] < 1:
        raise ClearheadError(f"at least two points (points, features) are needed, not shape {tuple(points.shape)}")
    points = points.detach().double().cpu()
    if not torch.isfinite(points).all():
        raise ClearheadError("the points have features that are not finite: they can't be placed")
    return points
