"""Neighbours and analogies in a table of four directions that is written by hand."""

import pytest
import torch

import clearhead
from clearhead.analyse import analogy, nearest_words, one_hot_row, static_vector, token_table
from clearhead.data import character_tokenizer, word_tokenizer
from clearhead.errors import ClearheadError
from clearhead.models import Model, create
from tests.minilm import tiny

ROWS = {  # royal, male, female, edible
    "king": [1.0, 1.0, 0.0, 0.0],
    "queen": [1.0, 0.0, 1.0, 0.0],
    "man": [0.0, 1.0, 0.0, 0.0],
    "woman": [0.0, 0.0, 1.0, 0.0],
    "apple": [0.0, 0.0, 0.0, 3.0],
    "prince": [1.0, 0.9, 0.0, 0.0],
}


@pytest.fixture
def model(tmp_path) -> Model:
    """A GPT with two rows more than the vocabulary has words."""
    made = create("gpt2", vocab=8, context=8, width=4, layers=1, heads=1, seed=0, device="cpu")
    with torch.no_grad():
        made.get_parameter("input.tokens.weight")[:6] = torch.tensor(list(ROWS.values()))
        made.get_parameter("input.tokens.weight")[6:] = torch.tensor([1.0, 1.0, 0.0, 0.0])
    folder = clearhead.save(made, tmp_path / "words", tokenizer=word_tokenizer(vocabulary=list(ROWS)))
    return clearhead.load(folder, device="cpu")


def test_the_nearest_words_come_by_cosine_without_the_word_itself(model):
    found = nearest_words(model, "king", 3)
    assert [one.token for one in found] == ["prince", "man", "queen"]
    cosines = [1.9 / (2**0.5 * 1.81**0.5), 1 / 2**0.5, 0.5]
    assert [one.cosine for one in found] == pytest.approx(cosines)
    assert [one.number for one in found] == [5, 2, 1]
    assert len(nearest_words(model, "apple", 99)) == 5  # rows without a word are none


def test_king_minus_man_plus_woman_is_queen(model):
    found = analogy(model, "king", "man", "woman", 2)
    assert found[0].token == "queen"
    assert {one.token for one in analogy(model, "king", "man", "woman")} == {"queen", "apple", "prince"}


def test_a_one_hot_row_times_the_table_is_the_tokens_row(model):
    for asked in ("apple", 4):
        row = one_hot_row(model, asked)
        assert row.one_hot.tolist() == [0, 0, 0, 0, 1, 0, 0, 0]
        assert torch.equal(row.product, row.looked_up) and row.product.tolist() == ROWS["apple"]
        assert (row.token, row.number) == ("apple", 4)


def test_a_word_in_several_pieces_is_their_mean(tmp_path):
    model = clearhead.load(tiny(tmp_path / "bert"), device="cpu")
    vector, pieces = static_vector(model, "cats")
    table = token_table(model)
    assert clearhead.tokenizer(model).pieces(pieces) == ["cat", "##s"]
    assert torch.equal(vector, (table[pieces[0]] + table[pieces[1]]) / 2)
    assert {"cat", "##s"}.isdisjoint(one.token for one in nearest_words(model, "cats", 99))
    assert one_hot_row(model, "##ing").token == "##ing"


def test_either_side_of_a_translator_has_its_own_words(tmp_path):
    made = create("transformer-tiny", vocab=3, target_vocab=3, tied="decoder", width=4, layers=1, heads=1, device="cpu")
    folder = clearhead.save(made, tmp_path / "pair", tokenizer=word_tokenizer(vocabulary=["a", "b", "c"]))
    model = clearhead.load(folder, device="cpu")
    assert torch.equal(token_table(model, "source"), made.get_parameter("source.tokens.weight"))
    assert torch.equal(token_table(model, "target"), made.get_parameter("target.tokens.weight"))
    assert nearest_words(model, "a", side="target") != nearest_words(model, "a")


def test_letters_are_words_where_a_vocabulary_has_nothing_else(tmp_path):
    made = create("gpt2", vocab=3, context=8, width=4, layers=1, heads=1, device="cpu")
    folder = clearhead.save(made, tmp_path / "abc", tokenizer=character_tokenizer("ABC"))
    assert {one.token for one in nearest_words(clearhead.load(folder, device="cpu"), "A")} == {"B", "C"}


def test_bad_requests_are_refused_in_one_line(model, tmp_path):
    bert = clearhead.load(tiny(tmp_path / "bert"), device="cpu")
    picture = create("vit-ti16", image=8, patch=4, width=12, layers=1, device="cpu")
    cases = [
        (lambda: nearest_words(model, "pear"), "'pear' is not in this vocabulary"),
        (lambda: nearest_words(bert, "pear"), "'pear' is not in this vocabulary of 32 tokens"),
        (lambda: nearest_words(model, " "), "the word is empty"),
        (lambda: nearest_words(model, "king", 0), "at least one word is asked for, not 0"),
        (lambda: one_hot_row(bert, "cats"), r"'cats' is 2 tokens \(cat ##s\)"),
        (lambda: one_hot_row(model, 8), "tokens are numbered 0 to 7: there is no 8"),
        (lambda: token_table(picture), "a vit model reads no words"),
        (lambda: token_table(model, "left"), "the side is source or target"),
    ]
    for call, message in cases:
        with pytest.raises(ClearheadError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)
