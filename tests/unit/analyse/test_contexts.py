"""One word in several sentences: where it stands, and the vectors it has there."""

import pytest
import torch

import clearhead
from clearhead.analyse import word_vectors
from clearhead.data import word_tokenizer
from clearhead.errors import ClearheadError
from clearhead.models import create
from clearhead.tasks import word_in_context
from tests.minilm import tiny

SENTENCES = ["the bank of the river", "money in the bank , the bank rose"]


@pytest.fixture
def bert(tmp_path):
    return clearhead.load(tiny(tmp_path / "bert"), device="cpu")


def test_every_occurrence_is_found_with_its_sentence(bert):
    found = word_vectors(bert, "bank", SENTENCES)
    assert [(one.sentence, one.start, one.stop) for one in found.occurrences] == [(0, 2, 3), (1, 4, 5), (1, 7, 8)]
    assert found.occurrences[1].tokens[4] == "bank"
    assert found.layers.shape == (3, 3, 24) and found.static.shape == (3, 24)


def test_cosines_are_those_of_the_similar_command(bert):
    found, other = word_vectors(bert, "bank", SENTENCES), word_in_context(bert, "bank", SENTENCES)
    assert torch.allclose(found.cosines(), other.contextual, atol=1e-6)
    assert torch.allclose(found.static_cosines, other.static, atol=1e-6)
    assert torch.allclose(found.static_cosines, torch.ones(3, 3), atol=1e-6)
    assert found.cosines()[0, 1] < 0.999


def test_the_path_starts_at_the_input_and_ends_behind_the_last_block(bert):
    found = word_vectors(bert, "bank", SENTENCES[:1])
    ids = torch.tensor([clearhead.tokenizer(bert).ids(SENTENCES[0])])
    with torch.no_grad():
        assert torch.allclose(found.layers[0, 0], bert.input(ids)[0, 2], atol=1e-6)
        assert torch.allclose(found.contextual[0], bert.hidden(ids)[0, 2], atol=1e-5)
        assert torch.equal(found.static[0], bert.input.tokens(ids)[0, 2])


def test_a_word_in_pieces_is_their_mean_and_not_part_of_a_longer_one(bert):
    assert word_vectors(bert, "cats", ["the cats rose"]).occurrences[0].stop == 4
    with pytest.raises(ClearheadError, match="'cat' does not occur in 'the cats rose'"):
        word_vectors(bert, "cat", ["the cats rose"])


def test_an_encoder_decoder_reads_with_its_encoder_and_a_gpt_with_its_decoder(tmp_path):
    tok = word_tokenizer(vocabulary=["a", "cat", "dog"])
    for name, sizes in (("t5-small", {"head_width": 6, "ff": 16}), ("gpt2", {"context": 8})):
        made = create(name, vocab=3, width=12, layers=2, heads=2, **sizes, seed=0, device="cpu")
        model = clearhead.load(clearhead.save(made, tmp_path / name, tokenizer=tok), device="cpu")
        found = word_vectors(model, "cat", ["a cat", "dog cat"])
        assert found.layers.shape == (2, 3, 12)
        assert torch.allclose(found.static_cosines, torch.ones(2, 2), atol=1e-6)
        assert found.cosines()[0, 1] < 0.99999


def test_bad_requests_are_refused_in_one_line(bert):
    picture = create("vit-ti16", image=8, patch=4, width=12, layers=1, device="cpu")
    cases = [
        (lambda: word_vectors(bert, "bank", []), "give a word, and the sentences"),
        (lambda: word_vectors(bert, " ", SENTENCES), "give a word"),
        (lambda: word_vectors(bert, "bank", ["the cat"]), "'bank' does not occur in 'the cat'"),
        (lambda: word_vectors(picture, "bank", SENTENCES), "a vit model reads no words"),
    ]
    for call, message in cases:
        with pytest.raises(ClearheadError, match=message):
            call()
