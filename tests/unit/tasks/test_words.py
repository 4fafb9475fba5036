"""Where a word stands in a row of tokens, in every kind of vocabulary."""

import clearhead
from clearhead.data import character_tokenizer, word_tokenizer
from clearhead.data.learn_tokenizer import learn_tokenizer
from clearhead.tasks.words import word_places
from tests.minilm import tiny


def test_in_a_vocabulary_with_spaces_a_word_is_found_at_the_start_and_within():
    """Learned from so little text, words are cut into few letters: what counts is where they end."""
    tok = learn_tokenizer(["bank embank banks a bank, the bank"] * 30, "bpe", 300)
    text = "bank embank banks a bank, the bank"
    ids = tok.ids(text)
    found = ["".join(tok.pieces(ids[start:stop])).strip() for start, stop in word_places(tok, "bank", ids)]
    assert found == ["bank"] * 3


def test_letters_make_words_between_spaces():
    tok = character_tokenizer("abc ")
    assert word_places(tok, "ab", tok.ids("ab cab abc ab")) == [(0, 2), (11, 13)]


def test_words_as_tokens_stand_where_they_are():
    tok = word_tokenizer(vocabulary=["a", "cat", "dog"])
    assert word_places(tok, "cat", tok.ids("a cat dog cat")) == [(1, 2), (3, 4)]


def test_a_word_in_pieces_is_found_whole_and_not_within_a_longer_one(tmp_path):
    tok = clearhead.tokenizer(clearhead.load(tiny(tmp_path / "bert"), device="cpu"))
    ids = tok.ids("cat s cats")
    assert [tok.pieces(ids[start:stop]) for start, stop in word_places(tok, "cats", ids)] == [["cat", "##s"]]
    assert [start for start, _ in word_places(tok, "cat", ids)] == [1]


def test_what_the_vocabulary_leaves_out_stands_nowhere(tmp_path):
    tok = clearhead.tokenizer(clearhead.load(tiny(tmp_path / "bert"), device="cpu"))
    assert tok.ids("\u200b\x07", special=False) == []
    assert word_places(tok, "\u200b\x07", tok.ids("the cat")) == []
