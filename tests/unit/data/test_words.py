"""Character and word vocabularies of our own."""

import pytest

from clearhead.data import character_tokenizer, deck_tokenizer, word_tokenizer
from clearhead.errors import ClearheadError


def test_punctuation_is_a_token_and_devanagari_words_stay_whole():
    tokenizer = word_tokenizer("नमस्ते, कस्तो हुनुहुन्छ?")

    assert list(tokenizer.vocabulary) == ["नमस्ते", ",", "कस्तो", "हुनुहुन्छ", "?"]
    assert tokenizer.text(range(5)) == "नमस्ते, कस्तो हुनुहुन्छ?"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("it's the dogs' 'bone'", ["it's", "the", "dogs", "'", "'", "bone", "'"]),
        ("a-b x_y 3.5\n\tz", ["a", "-", "b", "x_y", "3", ".", "5", "z"]),
        ("The the THE", ["The", "the", "THE"]),
    ],
)
def test_a_text_is_split_at_spaces_and_around_punctuation(text, words):
    assert word_tokenizer(text).tokens(text) == words


def test_an_unknown_word_is_named_where_nothing_stands_for_the_unknown():
    with pytest.raises(ClearheadError, match="^'cat' is not in this vocabulary of 3"):
        word_tokenizer("the dog", special={"pad": "<pad>"}).ids("the <pad> cat")


def test_an_unknown_word_is_the_unknown_token_where_there_is_one():
    tokenizer = deck_tokenizer()

    assert tokenizer.ids("This is Sparta") == [4, 5, tokenizer.special["unk"]]
    assert tokenizer.text([2, 4, 5, 3]) == "This is"
    assert tokenizer.text([2, 4, 5, 3], skip_special=False) == "<start> This is <end>"


def test_a_vocabulary_may_place_its_special_tokens_itself():
    tokenizer = word_tokenizer(vocabulary=["a", "<unk>", "b"], special={"unk": "<unk>", "pad": "<pad>"})

    assert tokenizer.vocabulary == {"<pad>": 0, "a": 1, "<unk>": 2, "b": 3}
    assert tokenizer.ids("b c a") == [3, 2, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "from texts or from a vocabulary"),
        ({"texts": "a", "vocabulary": ["a"]}, "from texts or from a vocabulary"),
        ({"texts": " \n"}, "can't be made of nothing"),
        ({"vocabulary": ["a", "b", "a"]}, "'a' is in the vocabulary twice"),
        ({"vocabulary": ["ice cream"]}, "'ice cream' is not one word"),
        ({"texts": "a \ud800"}, "half a surrogate pair"),
        ({"texts": "a", "special": {"unkn": "<unk>"}}, "did you mean 'unk'"),
    ],
)
def test_an_impossible_vocabulary_is_refused_in_one_line(arguments, message):
    with pytest.raises(ClearheadError, match=message) as caught:
        word_tokenizer(**arguments)
    assert "\n" not in str(caught.value)


def test_every_code_point_is_a_character_and_round_trips():
    text = "ने\r\n  \u200da\u0301👩‍👧"
    tokenizer = character_tokenizer(text)

    assert list(tokenizer.vocabulary) == list(dict.fromkeys(text))
    assert tokenizer.tokens(text) == list(text)
    assert tokenizer.text(tokenizer.ids(text)) == text


def test_an_alphabet_keeps_its_order():
    assert character_tokenizer("CAB").ids("ABC") == [1, 2, 0]
    assert character_tokenizer(["B", "A"]).ids("AB") == [1, 0]


def test_an_unknown_character_is_an_error_that_names_it_or_the_unknown_token():
    with pytest.raises(ClearheadError, match="^'ç' is not in this vocabulary of 2"):
        character_tokenizer("ab").ids("abç")
    assert character_tokenizer("ab", special={"unk": "<unk>"}).ids("açb") == [1, 0, 2]
