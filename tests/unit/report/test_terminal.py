"""What a terminal shows, with colours and without."""

import io

import pytest
import torch
from rich.console import Console

from clearhead.analyse import AttentionRow
from clearhead.models.vit import ViTConfig
from clearhead.report.sample_kinds import PictureSample, TextSample, TranslationSample
from clearhead.report.terminal import HALF, picture_lines, show_matrix, show_row, show_samples
from clearhead.tasks import Alignment


def console(colour: bool, width: int = 80, encoding: str = "utf-8") -> tuple[Console, io.BytesIO]:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    system = "truecolor" if colour else None
    return Console(file=file, force_terminal=colour, color_system=system, width=width, no_color=not colour), raw


def sample(truth: str, predicted: str, value: int = 255) -> PictureSample:
    config = ViTConfig(image=8, patch=4, width=12, heads=3, channels=1)
    pixels = torch.zeros(1, 8, 8, dtype=torch.uint8)
    pixels[0, :4] = value
    attention = torch.tensor([0.4, 0.3, 0.2, 0.0]).reshape(1, 1, 2, 2).expand(2, 3, 2, 2)
    return PictureSample(pixels, truth, predicted, 0.876, attention, config)


def test_two_pixels_share_a_half_block_in_their_two_colours():
    screen, _ = console(True)
    pixels = torch.tensor([[[255, 0], [128, 7]]], dtype=torch.uint8).repeat_interleave(8, 1).repeat_interleave(8, 2)
    pixels[0, 1::2] = 7
    lines = picture_lines(pixels, screen)
    assert len(lines) == 8 and all(line.plain == HALF * 16 for line in lines)
    style = lines[0].spans[0].style
    assert (style.color.name, style.bgcolor.name) == ("#ffffff", "#070707")  # pyright: ignore


def test_without_colours_a_pixel_is_two_characters_from_light_to_dark():
    screen, _ = console(False)
    pixels = torch.tensor([[[0, 255], [113, 0]]], dtype=torch.uint8)
    assert [line.plain for line in picture_lines(pixels, screen)] == ["  @@", "==  "]


def test_large_pictures_are_reduced_to_the_screen():
    screen, _ = console(True)
    lines = picture_lines(torch.zeros(3, 448, 224, dtype=torch.uint8), screen)
    assert len(lines) == 16 and lines[0].cell_len == 16


@pytest.mark.parametrize("colour", [True, False])
def test_mistakes_are_drawn_side_by_side_and_one_attention_map_with_its_scale(colour):
    screen, raw = console(colour)
    show_samples([sample("3", "8"), sample("9", "4"), sample("1", "1")], screen)
    text = raw.getvalue().decode()
    assert "mistakes, the surest first:" in text
    line = next(line for line in text.splitlines() if "truly 3" in line)
    assert "truly 9" in line and "truly 1" not in text
    assert "88%" in text
    assert "layer 2, mean of 3 heads" in text and "to 0.4, " in text
    assert (HALF in text) == colour and ("\x1b[" in text) == colour


def test_a_narrow_terminal_gets_fewer_pictures_to_a_line():
    screen, raw = console(False, width=24)
    show_samples([sample("3", "8"), sample("9", "4")], screen)
    text = raw.getvalue().decode()
    assert not any("truly 3" in line and "truly 9" in line for line in text.splitlines())
    assert "truly 3" in text and "truly 9" in text


def test_where_there_is_no_mistake_that_is_said():
    screen, raw = console(False)
    show_samples([sample("1", "1")], screen)
    assert "no mistakes among the samples" in raw.getvalue().decode()


def test_a_terminal_that_knows_no_blocks_gets_plain_characters():
    screen, raw = console(True, encoding="ascii")
    show_samples([sample("3", "8")], screen)
    assert "@@" in raw.getvalue().decode("ascii")


def test_a_matrix_names_its_rows_and_columns_and_has_its_largest_value():
    screen, raw = console(False)
    show_matrix(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), ["the", "cat"], ["das", "Katze"], screen)
    assert raw.getvalue().decode().splitlines() == [
        "the @@",
        "cat ====",
        "    a b",
        "a das  b Katze  (from 0, blank, to 1, dense)",
    ]


def test_columns_of_one_letter_need_no_key():
    screen, raw = console(False)
    show_matrix(torch.eye(2), ["A", "B"], ["A", "B"], screen)
    assert raw.getvalue().decode().splitlines() == ["A @@", "B   @@", "  A B", "(from 0, blank, to 1, dense)"]


def test_the_most_looked_at_tokens_come_with_bars():
    screen, raw = console(False)
    look = AttentionRow("[CLS]", ("[CLS]", "good", "film"), torch.tensor([[0.1, 0.7, 0.2], [0.1, 0.5, 0.4]]), "s")
    show_row(look, screen, most=2)
    lines = raw.getvalue().decode().splitlines()
    assert lines[0] == "[CLS] looked at (mean of 2 heads):"
    assert [line.split()[:2] for line in lines[1:]] == [["good", "0.600"], ["film", "0.300"]]
    assert lines[1].count("█") == 24 and lines[2].count("█") == 12


def test_control_characters_of_a_text_do_not_reach_the_terminal():
    screen, raw = console(False)
    look = AttentionRow("\x1b]0;evil\x07", ("\x1b[2J", "b"), torch.tensor([[0.5, 0.5]]), "s")
    show_samples([TextSample("\x1b[2J text", "\x1b[1m", "[bold]x", 0.5, look)], screen)
    written = raw.getvalue().decode()
    assert "\x1b" not in written and "\x07" not in written
    assert "[bold]x" in written  # no markup either


def test_a_translation_shows_its_cross_attention():
    screen, raw = console(False)
    shown = TranslationSample("a b", "x", "y z", Alignment(("a", "b"), ("y", "z"), torch.eye(2)))
    show_samples([shown], screen)
    assert raw.getvalue().decode().splitlines()[:4] == ["a b", "-> y z", "y @@", "z   @@"]
