"""PCA and t-SNE on points whose answer is known."""

import math

import pytest
import torch

from clearhead.analyse import pca, tsne
from clearhead.analyse.tsne import affinities, divergence, gradient
from clearhead.errors import ClearheadError


def groups(sizes: tuple[int, ...] = (20, 20, 20), width: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    centres = 12 * torch.eye(len(sizes), width)
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return centres[labels] + torch.randn(len(labels), width), labels


def test_points_on_a_slanted_line_have_one_axis():
    """(1,1), (2,2), (6,6): mean (3,3), along (1,1)/sqrt 2 at -2, -1 and 3 times sqrt 2."""
    found = pca(torch.tensor([[1.0, 1.0], [2.0, 2.0], [6.0, 6.0]]))
    root = math.sqrt(2)
    assert found.mean.tolist() == [3.0, 3.0]
    assert found.axes[0].tolist() == pytest.approx([1 / root, 1 / root])
    assert found.coordinates[:, 0].tolist() == pytest.approx([-2 * root, -root, 3 * root])
    assert found.shares.tolist() == pytest.approx([1.0, 0.0], abs=1e-6)


def test_shares_are_those_of_the_variance():
    """A cross: +-3 along the first axis, +-1 along the second: 18 and 2 of 20."""
    found = pca(torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
    assert found.shares.tolist() == pytest.approx([0.9, 0.1])
    assert found.axes.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_signs_do_not_depend_on_the_points_order_and_new_points_find_their_place():
    points = torch.randn(30, 6)
    found, turned = pca(points, 3), pca(points.flip(0), 3)
    assert torch.allclose(found.coordinates, turned.coordinates.flip(0), atol=1e-5)
    assert torch.allclose(found.place(points[:4]), found.coordinates[:4], atol=1e-5)
    everything = pca(points, 6)
    assert torch.allclose(everything.mean + everything.coordinates @ everything.axes, points, atol=1e-5)


def test_points_that_coincide_have_no_variance():
    found = pca(torch.ones(3, 2))
    assert found.shares.tolist() == [0.0, 0.0] and found.coordinates.abs().max() == 0


def test_four_points_of_a_square_are_near_as_the_gaussians_say():
    """Neighbours at distance 1 and sqrt 2. With any width b: e^-b twice and e^-2b, normalised; perplexity settles b."""
    square = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]).double()
    near = affinities(square, 2.5)
    assert near.sum().item() == pytest.approx(1.0) and torch.equal(near, near.T)
    side, across = near[0, 1].item() * 4, near[0, 3].item() * 4
    assert 2 * side + across == pytest.approx(1.0)
    entropy = -2 * side * math.log(side) - across * math.log(across)
    assert math.exp(entropy) == pytest.approx(2.5, rel=1e-6)
    assert near[0, 2].item() == pytest.approx(near[0, 1].item())


def test_the_gradient_is_that_of_the_divergence():
    near = affinities(torch.randn(7, 3).double(), 3.0)
    at = torch.randn(7, 2).double()
    found = gradient(near, at)
    for point, axis in ((0, 0), (3, 1), (6, 0)):
        ends = []
        for step in (1e-5, -1e-5):
            moved = at.clone()
            moved[point, axis] += step
            ends.append(divergence(near, moved))
        assert found[point, axis].item() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-8)


def test_groups_stay_together_on_the_plane():
    points, labels = groups()
    at = tsne(points, steps=400).coordinates
    distances = torch.cdist(at, at) + 1e9 * torch.eye(len(at))
    assert torch.equal(labels[distances.argmin(1)], labels)


def test_a_seed_gives_the_same_plane_and_progress_is_told():
    points, _ = groups((10, 10))
    told: list[int] = []
    first = tsne(points, steps=60, seed=3, progress=told.append)
    assert torch.equal(first.coordinates, tsne(points, steps=60, seed=3).coordinates)
    assert not torch.equal(first.coordinates, tsne(points, steps=60, seed=4).coordinates)
    assert sum(told) == 60
    assert first.perplexity == pytest.approx(19 / 3)


def test_points_that_coincide_and_points_on_a_line_are_placed():
    for points in (torch.ones(6, 3), torch.arange(8.0)[:, None], torch.cat([torch.zeros(5, 2), torch.ones(5, 2)])):
        assert torch.isfinite(tsne(points, steps=50).coordinates).all()


def test_bad_requests_are_refused_in_one_line():
    cases = [
        (lambda: pca(torch.zeros(1, 3)), "at least two points"),
        (lambda: pca(torch.zeros(3)), "at least two points"),
        (lambda: pca(torch.zeros(3, 2), 3), "1 to 2 axes, not 3"),
        (lambda: pca(torch.tensor([[0.0], [torch.nan]]), 1), "not finite"),
        (lambda: pca(torch.zeros(3, 2)).place(torch.zeros(1, 5)), "the points have 2 features"),
        (lambda: tsne(torch.zeros(3, 2)), "t-SNE places 4 to 2,000 points, not 3"),
        (lambda: tsne(torch.zeros(2001, 1)), "not 2,001: choose some, or use PCA"),
        (lambda: tsne(torch.rand(5, 2), perplexity=5), r"below the number of points \(5\), not 5"),
        (lambda: tsne(torch.rand(5, 2), steps=0), "at least one step"),
    ]
    for call, message in cases:
        with pytest.raises(ClearheadError, match=message):
            call()
