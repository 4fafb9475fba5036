"""The phrases of our own: both ways, the same fifth held out, the decks' greeting never among it."""

import pytest

from clearhead.data.phrases import GREETING
from clearhead.data.sets import open_set
from clearhead.errors import ClearheadError


def test_a_fifth_is_held_out_and_nothing_is_in_both_parts():
    dataset = open_set("phrases")
    train, test = dataset.parts["train"], dataset.parts["test"]
    assert len(train) + len(test) == 80
    assert 10 <= len(test) <= 20
    assert not set(train.sources) & set(test.sources)


def test_the_decks_greeting_is_learnt_and_says_what_it_means():
    train = open_set("phrases").parts["train"]
    assert dict(zip(train.sources, train.targets, strict=True))[GREETING] == "Hi, how are you?"


def test_the_other_direction_has_the_same_pairs_turned_round():
    there, back = open_set("phrases"), open_set("phrases", source="en", target="ne")
    for part in ("train", "test"):
        assert (back.parts[part].sources, back.parts[part].targets) == (
            there.parts[part].targets,
            there.parts[part].sources,
        )
    assert back.languages == ("en", "ne")


def test_other_languages_are_refused_in_one_line():
    with pytest.raises(ClearheadError, match="Nepali and English"):
        open_set("phrases", source="de", target="en")
