"""The decks' vocabulary: |V| = 6, in the order that the deck lists, and the sentences of the model `deck`."""

from clearhead.data import DECK_WORDS, deck_tokenizer, word_tokenizer

SENTENCES = ["I love artificial intelligence", "I like computational intelligence"]
DECK_ORDER = ["I", "love", "like", "artificial", "computational", "intelligence"]
DECK_SENTENCES = [
    "This is Computer Vision Class",
    *SENTENCES,
    "Hi how are you",
    "The animal didn't cross the street because it was too tired",
]


def test_two_sentences_have_six_words_numbered_as_the_deck_numbers_them():
    tokenizer = word_tokenizer(vocabulary=DECK_ORDER)

    assert tokenizer.size == 6
    assert tokenizer.vocabulary == {
        "I": 0, "love": 1, "like": 2, "artificial": 3, "computational": 4, "intelligence": 5
    }  # fmt: skip
    assert [tokenizer.ids(sentence) for sentence in SENTENCES] == [[0, 1, 3, 5], [0, 2, 4, 5]]


def test_words_become_numbers_and_numbers_the_same_words():
    tokenizer = word_tokenizer(vocabulary=DECK_ORDER)

    assert [tokenizer.text(tokenizer.ids(sentence)) for sentence in SENTENCES] == SENTENCES
    assert tokenizer.pieces(range(6)) == DECK_ORDER
    assert tokenizer.tokens(SENTENCES[0]) == ["I", "love", "artificial", "intelligence"]


def test_without_an_order_the_words_are_numbered_as_first_seen():
    tokenizer = word_tokenizer(SENTENCES)

    assert list(tokenizer.vocabulary) == ["I", "love", "artificial", "intelligence", "like", "computational"]


def test_the_decks_own_vocabulary_has_thirty_tokens_and_says_every_example_sentence():
    tokenizer = deck_tokenizer()

    assert tokenizer.size == 30 == len(DECK_WORDS) + 4
    assert tokenizer.special == {"pad": 0, "unk": 1, "bos": 2, "eos": 3}
    assert set(DECK_WORDS) == {word for sentence in DECK_SENTENCES for word in sentence.split()}
    assert [tokenizer.text(tokenizer.ids(sentence)) for sentence in DECK_SENTENCES] == DECK_SENTENCES
    assert tokenizer.ids("This is Computer Vision Class") == [4, 5, 6, 7, 8]
    assert "didn't" in tokenizer.tokens(DECK_SENTENCES[-1])
