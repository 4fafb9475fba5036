"""Curves: their numbers, read back from what was drawn."""

from xml.etree import ElementTree

import pytest

from clearhead.report.curves import Curve, line_chart


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<root>{html}</root>")


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
