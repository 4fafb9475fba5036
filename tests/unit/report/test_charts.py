"""The drawings: their numbers, read back from what was drawn."""

import io
import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from clearhead.report.charts import (
    LEVELS,
    STYLE,
    Curve,
    Tile,
    heat_map,
    label,
    level,
    line_chart,
    number,
    picture,
    picture_grid,
    png,
    sequential,
)


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<root>{html}</root>")


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0, 3, "0"),
        (0.123456, 3, "0.123"),
        (0.5, 3, "0.5"),
        (1234567, 3, "1,234,567"),
        (1234.5, 3, "1,234"),
        (-2.345, 3, "-2.35"),
        (1e-7, 3, "1e-7"),
        (1.25e-5, 3, "1.25e-5"),
        (99.96, 3, "100"),
        (20.0, 3, "20"),
        (float("nan"), 3, "nan"),
    ],
)
def test_numbers_are_written_as_a_person_reads_them(value, digits, text):
    assert number(value, digits) == text


def test_the_scale_gets_steadily_darker():
    luminance = [sum(w * c for w, c in zip((0.3, 0.59, 0.11), sequential(n / 50), strict=True)) for n in range(51)]
    assert all(a > b for a, b in pairwise(luminance))
    assert all(f".q{n}{{" in STYLE for n in range(LEVELS + 1))
    assert (level(0, 2), level(2, 2), level(1, 2), level(5, 0)) == (0, LEVELS, LEVELS // 2, 0)


def test_a_curve_lies_where_its_values_are():
    html = line_chart([Curve("valid", [(0, 1.0), (50, 2.0), (100, 3.0)], marked=True)], "loss", log=False)
    circles = parsed(html).findall(".//circle")
    xs, ys = ([float(c.attrib[key]) for c in circles] for key in ("cx", "cy"))
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2) and xs[0] < xs[1]
    assert ys[0] - ys[1] == pytest.approx(ys[1] - ys[2], abs=0.2) and ys[0] > ys[1]
    assert "valid at step 50: 2" in html


def test_a_figure_that_spans_more_than_a_decade_gets_a_logarithmic_axis():
    html = line_chart([Curve("train", [(0, 100.0), (1, 10.0), (2, 1.0)], marked=True)], "loss")
    ys = [float(c.attrib["cy"]) for c in parsed(html).findall(".//circle")]
    assert ys[1] - ys[0] == pytest.approx(ys[2] - ys[1], abs=0.2)
    assert "logarithmic" in html
    assert "logarithmic" not in line_chart([Curve("train", [(0, 9.0), (1, 1.0)])], "loss")
    assert "logarithmic" not in line_chart([Curve("train", [(0, 9.0), (1, 0.0)])], "loss")


def test_a_long_curve_is_thinned_to_means_and_that_is_said():
    points = [(float(step), float(step % 2)) for step in range(3000)]
    html = line_chart([Curve("train", points, noisy=True)], "loss")
    assert "a point is the mean of 10" in html and "running mean" in html
    faint = next(p for p in parsed(html).findall(".//path") if "faint" in p.attrib["class"])
    assert len(faint.attrib["d"].split("L")) == 300
    heights = {point.split()[1] for point in faint.attrib["d"][1:].split("L")}
    assert len(heights) == 1  # every ten of them have the mean 0.5


@pytest.mark.parametrize(
    "points", [[], [(3.0, 0.5)], [(0.0, 0.0)], [(1.0, 2.0), (2.0, 2.0)], [(1.0, -4.0), (2.0, 1e9)]]
)
def test_odd_curves_are_drawn_too(points):
    assert "nan" not in line_chart([Curve("train", points)], "loss")


def test_a_matrix_has_its_names_numbers_colours_and_scale():
    html = heat_map(torch.tensor([[0.0, 0.5], [0.25, 0.75]]), ["the", "<b>"], ["a", "b"], "who & whom")
    root = parsed(html)
    texts = [text.text for text in root.findall(".//text")]
    assert texts[:4] == ["the", "<b>", "a", "b"]
    assert texts[4:] == ["0.00", "0.50", "0.25", "0.75"]
    cells = [c.attrib["class"] for c in root.findall(".//rect")][:4]
    assert cells == ["c q0", f"c q{round(LEVELS * 2 / 3)}", f"c q{LEVELS // 3}", f"c q{LEVELS}"]
    assert "<b>" not in html.replace("<b>who &amp; whom</b>", "")
    assert "0.75" in html[html.index('class="scale"') :]


def test_masked_cells_are_hatched_and_have_no_colour():
    masked = torch.tensor([[False, True], [False, False]])
    html = heat_map(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), "ab", "ab", "t", masked=masked)
    classes = [c.attrib["class"] for c in parsed(html).findall(".//rect")][:4]
    assert classes[1] == "hatched" and all(c.startswith("c q") for c in (classes[0], *classes[2:]))
    assert "a to b: masked" in html and "not allowed to look" in html


def test_labels_show_spaces_and_are_cut():
    assert label(" the\n") == "␣the⏎"
    assert label("x" * 30) == "x" * 13 + "…"
    assert label("") == "∅"


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_our_png_is_read_by_others_pixel_for_pixel(channels):
    image = pytest.importorskip("PIL.Image", reason="Pillow reads the file back")
    pixels = torch.randint(256, (channels, 5, 7), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    opened = np.asarray(image.open(io.BytesIO(png(pixels))))
    assert np.array_equal(opened.reshape(5, 7, channels), pixels.permute(1, 2, 0).numpy())


def test_a_map_over_a_picture_is_strongest_where_it_is_largest():
    image = pytest.importorskip("PIL.Image", reason="Pillow reads the picture back")
    import base64

    over = torch.tensor([[0.0, 0.1], [0.2, 0.4]])
    html = picture(torch.zeros(3, 2, 2, dtype=torch.uint8), "a <picture>", over)
    files = [base64.b64decode(data) for data in re.findall(r"base64,([^\"]+)", html)]
    alpha = np.asarray(image.open(io.BytesIO(files[1])))[..., 3]
    assert alpha.tolist() == [[0, 54], [108, 215]]
    assert "a &lt;picture&gt;" in html and "<picture>" not in html


def test_large_pictures_are_reduced():
    image = pytest.importorskip("PIL.Image", reason="Pillow reads the picture back")
    import base64

    html = picture(torch.zeros(3, 400, 200, dtype=torch.uint8), "tall")
    (data,) = re.findall(r"base64,([^\"]+)", html)
    assert image.open(io.BytesIO(base64.b64decode(data))).size == (80, 160)


def test_a_grid_marks_what_is_right_and_what_is_wrong():
    html = picture_grid([Tile("<svg/>", ["cat & dog"], True), Tile("<svg/>", ["x"], False), Tile("<svg/>", ["y"])])
    assert html.count("✓") == html.count("✗") == 1
    assert "cat &amp; dog" in html and html.count("<figure>") == 3
