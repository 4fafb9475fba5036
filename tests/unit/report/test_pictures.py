"""Pictures: their pixels, read back from what was drawn."""

import base64
import io
import re

import numpy as np
import pytest
import torch

from clearhead.report.pictures import Tile, picture, picture_grid, png


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_our_png_is_read_by_others_pixel_for_pixel(channels):
    image = pytest.importorskip("PIL.Image", reason="Pillow reads the file back")
    pixels = torch.randint(256, (channels, 5, 7), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    opened = np.asarray(image.open(io.BytesIO(png(pixels))))
    assert np.array_equal(opened.reshape(5, 7, channels), pixels.permute(1, 2, 0).numpy())


def test_a_map_over_a_picture_is_strongest_where_it_is_largest():
    image = pytest.importorskip("PIL.Image", reason="Pillow reads the picture back")
    over = torch.tensor([[0.0, 0.1], [0.2, 0.4]])
    html = picture(torch.zeros(3, 2, 2, dtype=torch.uint8), "a <picture>", over)
    files = [base64.b64decode(data) for data in re.findall(r"base64,([^\"]+)", html)]
    alpha = np.asarray(image.open(io.BytesIO(files[1])))[..., 3]
    assert alpha.tolist() == [[0, 54], [108, 215]]
    assert "a &lt;picture&gt;" in html and "<picture>" not in html


def test_large_pictures_are_reduced():
    image = pytest.importorskip("PIL.Image", reason="Pillow reads the picture back")
    html = picture(torch.zeros(3, 400, 200, dtype=torch.uint8), "tall")
    (data,) = re.findall(r"base64,([^\"]+)", html)
    assert image.open(io.BytesIO(base64.b64decode(data))).size == (80, 160)


def test_a_grid_marks_what_is_right_and_what_is_wrong():
    html = picture_grid([Tile("<svg/>", ["cat & dog"], True), Tile("<svg/>", ["x"], False), Tile("<svg/>", ["y"])])
    assert html.count("✓") == html.count("✗") == 1
    assert "cat &amp; dog" in html and html.count("<figure>") == 3
