"""PCA and t-SNE against scikit-learn's, on its own handwritten digits."""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from clearhead.analyse import pca, tsne
from clearhead.analyse.tsne import affinities
from tests.support import equal, peer

PERPLEXITY, STEPS = 20.0, 600


@cache
def digits(count: int = 250) -> Tensor:
    return torch.tensor(peer("sklearn.datasets").load_digits().data[:count]).float()


def test_pca_has_the_same_axes_signs_coordinates_and_shares():
    theirs = peer("sklearn.decomposition").PCA(5, svd_solver="full").fit(digits().double().numpy())
    mine = pca(digits(), 5)
    assert equal(mine.axes, torch.tensor(theirs.components_))
    assert equal(mine.shares, torch.tensor(theirs.explained_variance_ratio_))
    assert equal(mine.mean, torch.tensor(theirs.mean_))
    assert equal(mine.coordinates, torch.tensor(theirs.transform(digits().double().numpy())))


def test_tsne_starts_from_the_same_nearness():
    peer("sklearn.manifold")
    from scipy.spatial.distance import cdist, squareform
    from sklearn.manifold._t_sne import _joint_probabilities

    points = digits().double().numpy()
    theirs = squareform(_joint_probabilities(cdist(points, points, "sqeuclidean"), PERPLEXITY, 0))
    mine = affinities(digits().double(), PERPLEXITY).numpy()
    assert np.abs(mine - theirs).max() < 1e-4 * theirs.max()


def test_tsne_ends_as_near_and_keeps_neighbours_as_well():
    """Where the points come to rest depends on chance (some per cent of the divergence): the best of three seeds."""
    manifold = peer("sklearn.manifold")
    points = digits().numpy()
    theirs = manifold.TSNE(perplexity=PERPLEXITY, method="exact", init="pca", max_iter=STEPS, random_state=0)
    placed = theirs.fit_transform(points)
    mine = min(
        (tsne(digits(), perplexity=PERPLEXITY, steps=STEPS, seed=seed) for seed in range(3)),
        key=lambda one: one.divergence,
    )
    assert mine.divergence < 1.04 * theirs.kl_divergence_
    trust = [manifold.trustworthiness(points, at, n_neighbors=10) for at in (mine.coordinates.numpy(), placed)]
    assert trust[0] > trust[1] - 0.005 and trust[0] > 0.98
