"""Counting models: against the same counted with dictionaries, and against what a probability has to be."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from clearhead.train.ngrams import ByteModel, WordModel

TRAIN = ["the cat sat on the mat", "a cat ate", "", "é ü the"]
OTHER = ["the hat", "zebra", "c", "üé"]


def by_dictionaries(train: list[str], text: bytes, order: int) -> list[float]:
    """Witten-Bell's formula as it is written, one byte at a time."""
    counts: dict[bytes, Counter] = defaultdict(Counter)
    for document in (text.encode() for text in train):
        for place, byte in enumerate(document):
            for length in range(min(place, order - 1) + 1):
                counts[document[place - length : place]][byte] += 1
    chances = []
    for place, byte in enumerate(text):
        chance = 1 / 256
        for length in range(min(place, order - 1) + 1):
            seen = counts.get(text[place - length : place])
            if seen:
                kinds = len(seen)
                chance = (seen[byte] + kinds * chance) / (seen.total() + kinds)
        chances.append(chance)
    return chances


@pytest.mark.parametrize("order", [1, 2, 5, 7])
def test_every_byte_has_the_probability_that_the_formula_gives_it(order):
    expected = [chance for text in OTHER for chance in by_dictionaries(TRAIN, text.encode(), order)]
    found = ByteModel(TRAIN, order).probabilities(OTHER)
    assert np.allclose(found, expected, rtol=1e-12, atol=0)
    bits = -sum(map(math.log2, expected)) / len(expected)
    assert ByteModel(TRAIN, order).bits_per_byte(OTHER) == pytest.approx(bits, rel=1e-12)


@pytest.mark.parametrize("back_off", ["witten-bell", "add-one"])
@pytest.mark.parametrize("history", [b"", b"th", b"the c", b"qqqq", b"the\x00"])
def test_the_probabilities_of_all_bytes_behind_a_history_sum_to_one(history, back_off):
    model = ByteModel(TRAIN)
    chances = [model.probabilities([history + bytes([byte])], back_off)[-1] for byte in range(256)]
    assert sum(chances) == pytest.approx(1, abs=1e-12) and min(chances) > 0


def test_a_zero_byte_is_not_taken_for_a_missing_history():
    model = ByteModel(["\x00\x00a" * 9, "ab"])
    assert np.allclose(model.probabilities(["a"]), by_dictionaries(["\x00\x00a" * 9, "ab"], b"a", 5))


def test_the_crude_back_off_lets_the_longest_known_history_decide_alone():
    assert ByteModel(["abab"], 2).probabilities(["ab"], "add-one").tolist() == [3 / 260, 3 / 258]
    with pytest.raises(ValueError, match="back_off"):
        ByteModel(["a"]).probabilities(["a"], "none")


def test_more_history_foretells_better():
    bits = [ByteModel(TRAIN * 5, order).bits_per_byte(TRAIN) for order in (1, 2, 3, 5)]
    assert bits == sorted(bits, reverse=True) and bits[-1] < 1.2


def test_words_are_guessed_by_frequency_and_by_their_left_neighbour_backed_off():
    documents = [np.array([1, 2, 1, 3, 1, 2], np.int32), np.array([4, 1], np.uint16)]
    model = WordModel(documents, vocabulary=6)
    assert model.counts.tolist() == [0, 4, 2, 1, 1, 0]
    assert model.by_frequency(3).tolist() == [1, 1, 1]
    # behind 1: 2 twice; behind 2: 1; behind 3: 1; behind 4: 1; 0 and 5 were never seen, and no pair joins documents
    assert model.by_left_neighbour(np.array([1, 2, 3, 4, 0, 5])).tolist() == [2, 1, 1, 1, 1, 1]


def test_of_equally_frequent_words_the_smallest_number_is_taken():
    model = WordModel([np.array([0, 2, 0, 1, 0])], vocabulary=3)
    assert model.by_left_neighbour(np.array([0])).tolist() == [1]
