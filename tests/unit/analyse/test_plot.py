"""Figures: what is drawn is what was recorded, in SVG and in PNG."""

import base64
import io
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch
from PIL import Image

import clearhead
from clearhead.analyse.heatmap import DARK, LIGHT
from clearhead.analyse.plot import attention
from clearhead.errors import ClearheadError
from clearhead.models import create
from clearhead.trace import Trace

SVG = "{http://www.w3.org/2000/svg}"
WEIGHTS = [[[1.0, 0.0], [0.25, 0.75]], [[1.0, 0.0], [0.5, 0.5]]]


def by_hand(*names: str) -> Trace:
    masked = torch.tensor(WEIGHTS).masked_fill(torch.tensor([[False, True], [False, False]]), -torch.inf)
    values = {
        "decoder.blocks.0.attention.masked": masked[None],
        "decoder.blocks.0.attention.weights": torch.tensor([WEIGHTS]),
    }
    return Trace(values, about={"tokens": list(names or ("the", "<b>&"))})


def titles(svg: str) -> list[str]:
    return [title.text or "" for title in ET.fromstring(svg).iter(f"{SVG}title")]


def test_every_cell_tells_its_value_and_masked_ones_are_hatched():
    figure = attention(by_hand()).plot(0, head=0)
    assert titles(str(figure)) == ["the → the: 1", "the → <b>&: masked", "<b>& → the: 0.25", "<b>& → <b>&: 0.75"]
    hatched = [one for one in ET.fromstring(str(figure)).iter(f"{SVG}rect") if "url(#ch-hatch" in one.get("fill", "")]
    assert len(hatched) == 1
    assert figure._repr_svg_() == str(figure)


def test_without_a_head_it_is_the_mean_of_all():
    assert titles(str(attention(by_hand()).plot()))[2:] == ["<b>& → the: 0.375", "<b>& → <b>&: 0.625"]


def test_names_and_the_ends_of_the_scale_are_written():
    texts = [text.text for text in ET.fromstring(str(attention(by_hand()).plot(0, 1))).iter(f"{SVG}text")]
    assert texts[0] == "decoder.blocks.0.attention.weights · layer 0 · head 1 of 2"
    assert texts.count("the") == texts.count("<b>&") == 2
    assert "1 · smallest 0.5 · scale of this matrix · hatched: masked" in texts


def test_both_themes_get_steadily_further_from_the_page():
    for theme, sign in ((LIGHT, -1), (DARK, 1)):
        lightness = [sum(w * c for w, c in zip((0.3, 0.59, 0.11), theme.at(n / 32), strict=True)) for n in range(33)]
        assert lightness == sorted(lightness, reverse=sign < 0)
        assert abs(lightness[-1] - lightness[0]) > 150
    style = next(ET.fromstring(str(attention(by_hand()).plot())).iter(f"{SVG}style")).text or ""
    assert "prefers-color-scheme:dark" in style
    assert all(name.startswith(".ch-") for name in re.findall(r"\.[a-z][\w-]*", re.sub(r"\{[^}]*\}", "{}", style)))


def test_svg_and_png_are_saved_and_the_pixels_have_the_scales_colours(tmp_path):
    figure = attention(by_hand("the", "नमस्ते")).plot(0, 0)
    saved = figure.save(tmp_path / "a.svg")
    assert saved.read_text(encoding="utf-8") == str(figure)
    for dark, theme in ((False, LIGHT), (True, DARK)):
        image = Image.open(figure.save(tmp_path / "a.png", dark=dark))
        drawn = figure.drawn
        assert image.size == (2 * drawn.size[0], 2 * drawn.size[1])
        for row, column, share in ((0, 0, 1.0), (1, 0, 0.25), (1, 1, 0.75)):
            x, y = drawn.left + (column + 0.5) * drawn.cell, drawn.top + (row + 0.5) * drawn.cell
            assert image.getpixel((int(2 * x), int(2 * y))) == theme.at(share)
        assert image.getpixel((1, 1)) == theme.page


def test_a_long_text_is_one_picture_of_pixels_in_either_theme():
    weights = torch.rand(1, 1, 70, 70).softmax(-1)
    figure = attention(Trace({"encoder.blocks.0.attention.weights": weights})).plot()
    images = list(ET.fromstring(str(figure)).iter(f"{SVG}image"))
    assert [one.get("class") for one in images] == ["ch-light", "ch-dark"]
    drawn = Image.open(io.BytesIO(base64.b64decode((images[0].get("href") or "").partition(",")[2])))
    cell = figure.drawn.cell
    assert drawn.size == (70 * cell, 70 * cell)
    assert drawn.getpixel((3 * cell, 5 * cell)) == LIGHT.at(figure.drawn.shares[5, 3].item())
    assert len(str(figure)) < 500_000


def test_a_recorded_pass_is_drawn_by_kind_and_layer():
    model = create("transformer-tiny", layers=2, width=16, heads=2, device="cpu", seed=0)
    trace = clearhead.record(model, ("a b c", "d e"))
    cross = attention(trace, "cross")
    assert "cross" in repr(cross) and "2 layers of 2 heads" in repr(cross)
    assert titles(str(cross.plot(1, 1)))[0].startswith("<start> → a: ")
    assert "layer 1 · head 1 of 2" in repr(cross.plot(-1, -1))


def test_the_package_offers_it_and_imports_it_only_when_it_is_asked_for():
    assert clearhead.attention is attention
    assert "attention" in clearhead.__all__
    code = "import sys, clearhead; assert 'clearhead.analyse.plot' not in sys.modules; clearhead.attention"
    source = str(Path(clearhead.__file__).parents[1])
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": source})
    with pytest.raises(AttributeError, match="no attribute 'atention'"):
        getattr(clearhead, "atention")  # noqa: B009 (a name that a type checker would refuse)


def test_bad_requests_are_refused_in_one_line(tmp_path):
    figures = attention(by_hand())
    cases = [
        (lambda: figures.plot(1), "there is no layer 1: the trace has 1, from 0"),
        (lambda: figures.plot(0, 2), "there is no head 2: the layer has 2, from 0"),
        (lambda: figures.plot().save(tmp_path / "a.gif"), "saved as .svg or .png, not as '.gif'"),
        (lambda: figures.plot().save(tmp_path / "no" / "a.svg"), "can't be written to"),
        (lambda: attention(Trace()), "record"),
    ]
    for call, message in cases:
        with pytest.raises(ClearheadError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)
