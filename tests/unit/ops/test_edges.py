"""Histograms of edges, beside the same written out pixel by pixel, and on pictures whose edges are plain to see."""

import math

import pytest
import torch
from torch import Tensor

from clearhead.ops.edges import NOISE, WAYS, edges
from tests.support import equal


def written_out(image: Tensor, cell: tuple[int, int]) -> Tensor:
    """One channel (H,W) -> (WAYS,H/cell,W/cell)."""
    rows, columns = image.shape
    found = torch.zeros(WAYS, rows // cell[0], columns // cell[1], dtype=torch.float64)
    pixel = image.tolist()
    for y in range(rows):
        for x in range(columns):
            right = pixel[y][x + 1] - pixel[y][x - 1] if 0 < x < columns - 1 else 0.0
            down = pixel[y + 1][x] - pixel[y - 1][x] if 0 < y < rows - 1 else 0.0
            way = math.floor(math.degrees(math.atan2(down, right)) % 180 / (180 / WAYS))
            found[way % WAYS, y // cell[0], x // cell[1]] += math.sqrt(right**2 + down**2)
    return found / (found.square().sum(0).sqrt() + NOISE)


@pytest.mark.parametrize("cell", [(2, 2), (4, 2), (1, 1)])
def test_they_are_those_that_are_written_out_pixel_by_pixel(cell):
    images = torch.randn(2, 3, 8, 4)
    expected = torch.stack([torch.cat([written_out(channel, cell) for channel in image]) for image in images])
    assert equal(edges(images, cell), expected.float())


@pytest.mark.parametrize(("turned", "way"), [(False, 0), (True, WAYS // 2)])
def test_a_picture_that_grows_brighter_to_the_right_or_downwards_has_edges_that_way_alone(turned, way):
    slope = torch.arange(8.0).expand(1, 1, 8, 8)
    found = edges(slope.transpose(2, 3) if turned else slope, (4, 4))
    assert (found[:, way] > 0.9).all() and found.sum() == found[:, way].sum()
    assert equal(found, edges(-slope.transpose(2, 3) if turned else -slope, (4, 4)))


def test_a_picture_without_edges_has_none():
    assert not edges(torch.full((1, 3, 4, 4), 7.0), (2, 2)).any()
