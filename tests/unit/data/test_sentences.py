"""Which rows stand in others, and sentences that are held out together with all of their phrases."""

import random

import pytest
import torch

from clearhead.data.kinds import Labelled
from clearhead.data.sentences import by_sentence, wholes
from clearhead.data.sets import open_set
from clearhead.errors import ClearheadError


def test_a_phrase_belongs_to_all_sentences_that_hold_it_and_to_no_other_phrase():
    texts = ["film", "a good film", "good film", "this is a good film", "a good film for some", "ilm", "good", "film"]
    assert wholes(texts) == [[3, 4], [3, 4], [3, 4], [3], [4], [5], [3, 4], [3, 4]]


def test_equal_texts_stand_for_one_another():
    assert wholes(["so it is", "so it is", "it"]) == [[0], [0], [0]]


def made(seed: int) -> list[str]:
    """Rows of few words, many of which stand in others."""
    draw = random.Random(seed)
    sentences = [" ".join(draw.choices("abcdefg", k=draw.randint(4, 9))) for _ in range(12)]
    phrases = []
    for sentence in sentences:
        words = sentence.split()
        for _ in range(4):
            start = draw.randrange(len(words))
            phrases.append(" ".join(words[start : start + draw.randint(1, 4)]))
    rows = sentences + phrases
    draw.shuffle(rows)
    return rows


@pytest.mark.parametrize("seed", range(8))
def test_it_is_what_comparing_every_row_with_every_other_gives(seed):
    texts = made(seed)

    def holds(whole: str, text: str) -> bool:
        return whole != text and f" {text} " in f" {whole} "

    alone = [row for row, text in enumerate(texts) if not any(holds(other, text) for other in texts)]
    firsts = [row for row in alone if texts.index(texts[row]) == row]
    for row, found in enumerate(wholes(texts)):
        expected = [whole for whole in firsts if texts[whole] == texts[row] or holds(texts[whole], texts[row])]
        assert found == expected


@pytest.mark.parametrize("seed", range(3))
def test_nothing_that_is_learnt_stands_in_a_sentence_that_is_held_out(seed):
    texts = made(seed)
    part = Labelled(texts, torch.arange(len(texts)))
    train, valid = by_sentence(part, 0.3, seed)
    assert len(valid) and len(train) and not any(f" {a} " in f" {b} " for a in train.texts for b in valid.texts)
    for some in (train, valid):
        assert [texts[row] for row in some.labels.tolist()] == list(some.texts)


def test_sst2_can_be_split_by_sentence(tmp_path):
    rows = [f"{text}\t{len(text) % 2}" for text in made(5)]
    (tmp_path / "train.tsv").write_text("sentence\tlabel\n" + "\n".join(rows) + "\n")
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\nfine\t1\n")
    found = open_set("sst2", tmp_path, split="sentences")
    assert sorted(found.parts) == ["test", "train", "valid"] and list(found.parts["test"].texts) == ["fine"]
    assert "phrases of them are left out; test is GLUE's dev" in found.notes[-1]
    with pytest.raises(ClearheadError, match="sst2 can't be split by 'sentence': take official or sentences"):
        open_set("sst2", tmp_path, split="sentence")
