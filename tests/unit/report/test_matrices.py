"""Matrices: names, numbers and colours, read back from what was drawn."""

from xml.etree import ElementTree

import torch

from clearhead.report.matrices import heat_map
from clearhead.report.scale import LEVELS


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<root>{html}</root>")


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
