"""Numbers as people read them, colours that get darker, labels that show what is there."""

from itertools import pairwise

import pytest

from clearhead.report.scale import LEVELS, STYLE, label, level, number, sequential


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


def test_labels_show_spaces_and_are_cut():
    assert label(" the\n") == "␣the⏎"
    assert label("x" * 30) == "x" * 13 + "…"
    assert label("") == "∅"
