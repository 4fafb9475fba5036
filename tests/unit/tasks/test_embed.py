"""`embed` and `similar` on a tiny random model; the real weights are in tests/parity/test_minilm.py."""

import json
import logging
import shutil
import sys

import pytest
import torch

import clearhead
from clearhead.errors import ClearheadError
from clearhead.models import create
from clearhead.tasks import embed, similar, word_in_context
from clearhead.tasks.embed import pooled, shortened
from tests.minilm import tiny
from tests.support import equal

TEXTS = [
    "the cat",
    "a dog sat on the bank of the river .",
    "",
    "money",
    "she put money in the bank , he put tea",
    "rates rose",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny(tmp_path_factory.mktemp("bert") / "tiny")


@pytest.fixture
def model(folder):
    return clearhead.load(folder, device="cpu")


def test_vectors_stand_in_the_order_of_the_texts_whatever_the_batches(model):
    alone = torch.cat([embed(model, [text]) for text in TEXTS])
    for batch in (1, 2, 4, 32):
        assert equal(embed(model, TEXTS, batch=batch), alone)
    assert alone.shape == (6, 24) and alone.dtype == torch.float32


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_vector_is_the_pooled_hidden_state_of_its_text_alone(model, pooling):
    ids = torch.tensor([clearhead.tokenizer(model).ids(TEXTS[1])])
    with torch.no_grad():
        hidden = model.hidden(ids)[0]
    by_hand = hidden.mean(0) if pooling == "mean" else hidden[0]
    vectors = embed(model, TEXTS, pooling, normalise=False)
    assert equal(vectors[1], by_hand)
    assert equal(embed(model, TEXTS, pooling)[1], by_hand / by_hand.norm())


def test_padding_is_no_part_of_a_mean_even_where_it_is_not_a_number():
    hidden = torch.tensor([[[1.0], [3.0], [float("nan")]], [[4.0], [float("inf")], [float("nan")]]])
    assert pooled(hidden, torch.tensor([2, 1]), "mean").tolist() == [[2.0], [4.0]]
    assert pooled(hidden, torch.tensor([2, 1]), "cls").tolist() == [[1.0], [4.0]]


def test_a_row_that_is_cut_still_ends_with_its_last_token():
    ids = torch.tensor([[1, 5, 6, 7, 2], [1, 5, 2, 0, 0], [1, 5, 6, 2, 0]])
    short, lengths = shortened(ids, torch.tensor([5, 3, 4]), 3)
    assert short.tolist() == [[1, 5, 2], [1, 5, 2], [1, 5, 2]] and lengths.tolist() == [3, 3, 3]
    same, lengths = shortened(ids, torch.tensor([5, 3, 4]), 9)
    assert torch.equal(same, ids) and lengths.tolist() == [5, 3, 4]


def test_texts_longer_than_the_context_are_cut_and_that_is_said(model, caplog):
    long = "the cat " * 20
    with caplog.at_level(logging.WARNING, logger="clearhead"):
        vectors = embed(model, ["the dog", long], normalise=False)
    assert "1 of 2 texts were cut at 16 tokens" in caplog.text
    tok = clearhead.tokenizer(model)
    ids = torch.tensor([[*tok.ids(long)[:15], tok.special["sep"]]])
    with torch.no_grad():
        assert equal(vectors[1], model.hidden(ids)[0].mean(0))


def test_a_sentence_transformers_folder_may_set_a_lower_limit(folder, tmp_path, caplog):
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 4}))
    model = clearhead.load(tmp_path / "copy", device="cpu")
    with caplog.at_level(logging.WARNING, logger="clearhead"):
        assert equal(embed(model, ["the cat sat on the dog"]), embed(model, ["the cat"]))
    assert "cut at 4 tokens" in caplog.text


def test_progress_counts_every_text_once(model):
    done = []
    embed(model, TEXTS, batch=4, progress=done.append)
    assert done == [4, 2]


def test_no_texts_give_no_vectors(model):
    assert embed(model, []).shape == (0, 24)


def test_a_head_does_not_matter_and_training_mode_comes_back(folder):
    plain = clearhead.load(folder, device="cpu")
    model = clearhead.load(folder, device="cpu", task="classify", num_classes=2, dropout=0.5).train()
    assert equal(embed(model, TEXTS), embed(plain, TEXTS))
    assert model.training and all(module.training for module in model.modules())


def test_a_compiled_model_is_used_as_it_was_written(model):
    assert torch.equal(embed(torch.compile(model), TEXTS), embed(model, TEXTS))


def test_what_can_not_be_embedded_is_refused(model, folder, tmp_path):
    for call, message in (
        (lambda: embed(model, TEXTS, "max"), "pooling must be one of mean, cls, not 'max'"),
        (lambda: embed(model, TEXTS, batch=0), "a batch holds at least one text, not 0"),
        (lambda: embed(create("deck"), TEXTS), "vectors of texts come from a BERT or MiniLM, not from a GPT"),
        (lambda: embed(create("minilm-l6", layers=1), TEXTS), "comes without a vocabulary"),
        (lambda: embed(clearhead.load(tiny(tmp_path / "few", vocab=9), device="cpu"), TEXTS), "don't belong together"),
        (lambda: similar(model, [], "a"), "nothing to compare"),
        (lambda: similar(model, ["a"]), "nothing to compare"),
        (lambda: similar(model, TEXTS, count=0), "count must be at least 1"),
        (lambda: word_in_context(model, "bank", []), "give a word"),
        (lambda: word_in_context(model, " ", TEXTS), "give a word"),
        (lambda: word_in_context(model, "bank", TEXTS[:2]), "'bank' does not occur in 'the cat'"),
        (lambda: word_in_context(model, "cat", TEXTS[:1]), "'cat' occurs once"),
    ):
        with pytest.raises(ClearheadError) as caught:
            call()
        assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_query_ranks_the_texts_by_cosine(model):
    vectors = embed(model, TEXTS)
    expected = vectors @ embed(model, ["a cat"])[0]
    found = similar(model, TEXTS, "a cat", count=4)
    assert [match.second for match in found] == expected.argsort(descending=True)[:4].tolist()
    assert [match.score for match in found] == pytest.approx(
        expected.sort(descending=True).values[:4].tolist(), abs=1e-5
    )
    assert len(similar(model, TEXTS, "a cat", count=100)) == len(TEXTS)


@pytest.mark.parametrize("room", [1, 13, 10**6])
def test_all_pairs_are_found_best_first_however_they_are_cut_into_blocks(model, room, monkeypatch):
    monkeypatch.setattr(sys.modules["clearhead.tasks.similar"], "ROOM", room)
    table = embed(model, TEXTS) @ embed(model, TEXTS).T
    pairs = sorted(((a, b) for a in range(6) for b in range(a + 1, 6)), key=lambda pair: -table[pair].item())
    for count in (3, 15, 99):
        found = similar(model, TEXTS, count=count)
        assert [(match.first, match.second) for match in found] == pairs[:count]


def test_a_word_has_one_static_vector_and_a_contextual_one_wherever_it_occurs(model):
    found = word_in_context(model, "bank", ["the bank of the river", "money in the bank , the bank rose"])
    assert found.sentences == [0, 1, 1]
    assert torch.allclose(found.static, torch.ones(3, 3), atol=1e-6)
    assert torch.allclose(found.contextual.diagonal(), torch.ones(3), atol=1e-6)
    assert found.contextual.triu(1).max() < 0.999


def test_a_word_in_pieces_is_found_whole_and_not_inside_a_longer_one(model):
    found = word_in_context(model, "cats", ["the cats rose", "cats in water", "cat s cats"])
    assert found.sentences == [0, 1, 2]
    with pytest.raises(ClearheadError, match="'cat' does not occur in 'the cats rose'"):
        word_in_context(model, "cat", ["a cat", "the cats rose"])
