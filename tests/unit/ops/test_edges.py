"""Histograms of edges, beside the same written out pixel by pixel, and on pictures whose edges are plain to see."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor

from clearhead.ops.edges import NOISE, WAYS, edges
from tests.support import equal


def written_out(image: Tensor, cell: tuple[int, int], beyond: tuple[int, int]) -> Tensor:
    """One channel (H,W) -> (WAYS,H/cell,W/cell)."""
    rows, columns = image.shape
    found = torch.zeros(WAYS, rows // cell[0], columns // cell[1], dtype=torch.float64)
    pixel = image.tolist()
    for y, x in product(range(rows), range(columns)):
        right = pixel[y][x + 1] - pixel[y][x - 1] if 0 < x < columns - 1 else 0.0
        down = pixel[y + 1][x] - pixel[y - 1][x] if 0 < y < rows - 1 else 0.0
        way = math.floor(math.degrees(math.atan2(down, right)) % 180 / (180 / WAYS))
        for i, j in product(range(found.shape[1]), range(found.shape[2])):
            if _counts(y, i, cell[0], beyond[0]) and _counts(x, j, cell[1], beyond[1]):
                found[way % WAYS, i, j] += math.sqrt(right**2 + down**2)
    return found / (found.square().sum(0).sqrt() + NOISE)


def _counts(pixel: int, cell: int, wide: int, beyond: int) -> bool:
    return cell * wide - beyond <= pixel < (cell + 1) * wide + beyond


@pytest.mark.parametrize(
    ("cell", "beyond"), [((2, 2), (0, 0)), ((4, 2), (0, 0)), ((1, 1), (0, 0)), ((2, 2), (1, 1)), ((4, 1), (0, 2))]
)
def test_they_are_those_that_are_written_out_pixel_by_pixel(cell, beyond):
    images = torch.randn(2, 3, 8, 4)
    expected = torch.stack([torch.cat([written_out(channel, cell, beyond) for channel in image]) for image in images])
    assert equal(edges(images, cell, beyond), expected.float())


@pytest.mark.parametrize(("turned", "way"), [(False, 0), (True, WAYS // 2)])
def test_a_picture_that_grows_brighter_to_the_right_or_downwards_has_edges_that_way_alone(turned, way):
    slope = torch.arange(8.0).expand(1, 1, 8, 8)
    found = edges(slope.transpose(2, 3) if turned else slope, (4, 4))
    assert (found[:, way] > 0.9).all() and found.sum() == found[:, way].sum()
    assert equal(found, edges(-slope.transpose(2, 3) if turned else -slope, (4, 4)))


def test_a_picture_without_edges_has_none():
    assert not edges(torch.full((1, 3, 4, 4), 7.0), (2, 2)).any()
