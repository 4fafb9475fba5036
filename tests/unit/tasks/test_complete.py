"""`complete`: positions, ends of lines and blocks, and what the context can't hold."""

import pytest

import clearhead
from clearhead.errors import ClearheadError
from clearhead.tasks import complete, generate
from clearhead.tasks.complete import block_end, text_before
from tests.writers import letters, translator


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return clearhead.load(letters(tmp_path_factory.mktemp("c") / "gpt", "abcd\nefg h"), device="cpu")


def test_a_line_is_completed_to_its_end(model):
    found = complete(model, "ab\nhhh", 1, 3)
    (sample,) = found.samples
    assert (sample.text, sample.reason, found.read, found.cut) == ("cd", "stop", 2, 0)
    assert complete(model, "h\nef", 2, 3).samples[0].text == "g h"


def test_what_stands_behind_the_position_is_not_read(model):
    assert complete(model, "aQQQ", 1, 2).samples[0].text == "bcd"


def test_the_beginning_is_left_out_where_the_context_can_not_hold_it(model):
    text = "h" * 40 + "a"
    found = complete(model, text, 1, 42, length=4)
    assert (found.read, found.cut) == (16 + 1 - 4, 41 - 13) and found.samples[0].text == "bcd"
    found = complete(model, text, 1, 42, length=100)
    assert (found.read, found.cut) == (8, 33)
    assert complete(model, "ha", 1, 3, length=100).cut == 0


def test_samples_are_those_of_generate(model):
    found = complete(model, "ab", 1, 3, samples=3, seed=4, temperature=2.0, length=5, logprobs=1)
    expected = generate(model, "ab", samples=3, seed=4, temperature=2.0, length=5, stop="\n", logprobs=1)
    assert [(s.tokens, s.text, s.best) for s in found.samples] == [(s.tokens, s.text, s.best) for s in expected]


def test_a_block_goes_on_over_lines_of_the_same_depth(tmp_path):
    deep = clearhead.load(letters(tmp_path / "deep", "ab\ncd"), device="cpu")
    (sample,) = complete(deep, "a", 1, 2, block=True).samples
    assert (sample.text, sample.reason) == ("b\ncd", "end")
    (sample,) = complete(deep, "a", 1, 2).samples
    assert (sample.text, sample.reason) == ("b", "stop")


BLOCKS = {
    "the line alone is no end": ("x = ", "1", None),
    "a line of the same depth": ("x = ", "1\ny = 2", None),
    "a blank line": ("x = ", "1\n\ny", 1),
    "a line that may still come": ("x = ", "1\n  ", None),
    "white space alone is blank too": ("x = ", "1\n  \n", 1),
    "less deep": ("    x = ", "1\ny", 1),
    "not known before a letter is there": ("    x = ", "1\n  ", None),
    "a header's body": ("def f(x):", "\n    return x", None),
    "behind the body": ("def f(x):", "\n    return x\ny", 13),
    "deeper inside the body": ("def f(x):", "\n    if x:\n        y\n    z\nw", 26),
    "a body and its own depth": ("    if x:", "\n        y\n    z", 10),
    "a depth that is being written": ("", "    x\n    y\nz", 11),
    "tabs": ("\tx = ", "1\n\ty\nz", 4),
}


@pytest.mark.parametrize(("begun", "text", "end"), BLOCKS.values(), ids=BLOCKS)
def test_a_block_ends_before_a_line_that_is_blank_or_less_deep(begun, text, end):
    assert block_end(begun)(text) == end


def test_positions_count_from_one_and_may_stand_behind_the_last_letter():
    text = "\ufeffab\r\ncd\n"
    assert [text_before(text, *at) for at in ((1, 1), (1, 3), (2, 1), (2, 2), (3, 1))] == [
        "",
        "ab",
        "ab\n",
        "ab\nc",
        "ab\ncd\n",
    ]
    for at, message in {
        (0, 1): "there is no line 0: the text has 3",
        (4, 1): "there is no line 4: the text has 3",
        (1, 0): "there is no column 0 in line 1: it has 1 to 3",
        (2, 4): "there is no column 4 in line 2: it has 1 to 3",
    }.items():
        with pytest.raises(ClearheadError) as caught:
            text_before(text, *at)
        assert str(caught.value) == message


def test_a_beginning_without_text_and_a_model_that_answers_are_refused(model, tmp_path):
    with pytest.raises(ClearheadError, match="there is no text before 1:1 to go on from"):
        complete(model, "a", 1, 1)
    other = clearhead.load(translator(tmp_path / "t"), device="cpu")
    with pytest.raises(ClearheadError, match="completing needs a model that goes on with a text"):
        complete(other, "the cat", 1, 4)
