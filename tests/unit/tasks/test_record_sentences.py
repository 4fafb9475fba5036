"""`record` takes two sentences for a BERT: one row, its length, and to which of the two each token belongs."""

import pytest
import torch

import clearhead
from clearhead.errors import ClearheadError
from clearhead.models import create
from clearhead.tasks.record import prepared

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "it", "was", "tired")
SMALL = {"width": 16, "layers": 1, "heads": 2, "context": 16, "device": "cpu", "seed": 0}
PAIR = ("the cat sat", "it was tired")


@pytest.fixture
def bert(tmp_path):
    clearhead.save(create("bert-base", vocab=len(WORDS), task="fill", init_std=0.3, **SMALL), tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return clearhead.load(tmp_path, device="cpu")


def test_two_sentences_are_one_row_with_its_length_and_segments(bert):
    ids, lengths, segments = prepared(bert, PAIR).tensors
    assert ids.tolist() == [[2, 5, 6, 7, 3, 8, 9, 10, 3]]
    assert lengths.tolist() == [9]
    assert segments.tolist() == [[0, 0, 0, 0, 0, 1, 1, 1, 1]]


def test_two_sentences_are_recorded_as_the_model_reads_them(bert):
    trace = clearhead.record(bert, PAIR)
    ids, lengths, segments = prepared(bert, PAIR).tensors
    with torch.no_grad():
        expected = bert(ids, lengths, segments)
    assert (trace.output - expected).abs().max() < 1e-5
    assert torch.equal(trace["input.segments"][0], bert.input.segments.weight[segments[0]])
    assert trace.about["tokens"] == ["[CLS]", "the", "cat", "sat", "[SEP]", "it", "was", "tired", "[SEP]"]
    assert (trace.about["text"], trace.about["second"]) == PAIR


def test_the_second_sentence_is_told_apart_from_the_first(bert):
    together = clearhead.record(bert, PAIR)
    same_words = clearhead.record(bert, " [SEP] ".join(PAIR))
    assert torch.equal(together["input.ids"], same_words["input.ids"])
    assert (together["logits"] - same_words["logits"]).abs().max() > 1e-3


def test_one_sentence_is_recorded_as_before(bert):
    (ids,) = prepared(bert, PAIR[0]).tensors
    assert ids.tolist() == [[2, 5, 6, 7, 3]]


def test_a_bert_that_knows_one_kind_of_sentence_reads_both_as_that():
    model = create("bert-base", vocab=20, segments=1, **SMALL)
    assert prepared(model, PAIR).tensors[2].tolist() == [[0] * 6]


def test_random_weights_number_the_words_of_both_sentences_as_they_appear():
    trace = clearhead.record(create("bert-base", vocab=20, **SMALL), ("a b", "b c"), sites="input.ids")
    assert trace["input.ids"].tolist() == [[0, 1, 1, 2]]
    assert "numbered as they appear" in trace.about["note"]


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (("the", " "), "the text is empty: there is nothing to record"),
        (("the", "cat " * 20), "24 tokens don't fit the model's context of 16: shorten the text"),
        (("a", "b", "c"), "a bert model takes (text): 1 expected, 3 given"),
    ],
)
def test_sentences_that_can_not_be_read_are_refused_in_one_line(bert, pair, said):
    with pytest.raises(ClearheadError) as caught:
        clearhead.record(bert, pair)
    assert str(caught.value) == said
