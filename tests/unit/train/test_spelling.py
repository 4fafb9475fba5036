"""Rows of a table that share weights by spelling: what they add up to, their gradients, the plain table after it."""

import math
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.errors import ClearheadError
from clearhead.layers.embeddings import TokenEmbedding
from clearhead.models.gpt import GPT
from clearhead.recipes.start import named_run
from clearhead.train import spelling
from clearhead.train.language import LanguageSpec
from clearhead.train.loop import train
from clearhead.train.spelling import Spelling, SpeltTokens, pieces_of, spell, spelt, summed, unspell
from tests.support import equal

WORDS = [None, "sing", "singing", "singer", "ring", "ringing", "a"]


def small() -> GPT:
    model = clearhead.create("gpt2", device="cpu", seed=0, vocab=len(WORDS), width=8, layers=1, heads=2, context=12)
    assert isinstance(model, GPT)
    return model


def dense(spelling: Spelling) -> torch.Tensor:
    """What each piece counts for each word, (words, pieces), from its definition."""
    shares = torch.zeros(len(spelling.words), spelling.count)
    for word, pieces in enumerate(spelling.words):
        shares[word, pieces] = 1 / math.sqrt(len(pieces)) if pieces else 0.0
    return shares


def test_pieces_are_runs_of_three_to_six_letters_with_marks_at_the_ends():
    assert pieces_of("sing") == ["<si", "sin", "ing", "ng>", "<sin", "sing", "ing>", "<sing", "sing>", "<sing>"]
    assert pieces_of("a") == ["<a>"] and pieces_of("aaaa").count("aaa") == 1


def test_only_what_several_words_share_is_a_piece_and_a_token_that_is_no_word_has_none():
    spelling = Spelling(WORDS)
    names = {piece for word in WORDS[1:] for piece in pieces_of(word or "")}
    shared = sorted(p for p in names if sum(p in pieces_of(word) for word in WORDS if word) >= 3)
    assert spelling.count == len(shared) and {"ing", "sing"} <= set(shared)
    assert [shared[place] for place in spelling.words[1]] == [p for p in pieces_of("sing") if p in shared]
    assert spelling.words[0] == [] and spelling.words[-1] == []


def test_a_row_is_its_own_part_and_those_of_its_pieces():
    model = small()
    before = model.input.tokens.weight.detach().clone()
    assert spell(model, WORDS, torch.Generator().manual_seed(1)) == Spelling(WORDS).count
    table = model.input.tokens
    assert isinstance(table, SpeltTokens) and equal(table.own, before * math.sqrt(0.5))
    assert equal(table.weight, table.own + dense(Spelling(WORDS)) @ table.pieces)


@pytest.mark.parametrize("part", [2, 64])
def test_gradients_are_those_of_the_plain_product_however_long_lists_are_cut(monkeypatch, part):
    monkeypatch.setattr(spelling, "PART", part)
    tensors = Spelling(WORDS).tensors()
    lists = tuple(tensors.values())
    rows = torch.randn(Spelling(WORDS).count, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda rows: summed(rows, *lists), rows)
    slopes = torch.randn(len(WORDS), 4, dtype=torch.float64)
    (ours,) = torch.autograd.grad(summed(rows, *lists), rows, slopes)
    assert equal(ours, dense(Spelling(WORDS)).double().T @ slopes)
    torch.library.opcheck(summed, (rows, *lists))


def test_a_plain_table_afterwards_says_the_same():
    model, ids = small().eval(), torch.tensor([[1, 2, 0, 5]])
    spell(model, WORDS)
    with torch.no_grad():
        before = model(ids)
        unspell(model)
        assert torch.equal(model(ids), before)
    assert type(model.input.tokens) is TokenEmbedding and not spelt(model)


def test_a_run_learns_by_spelling_and_leaves_a_plain_model(tmp_path):
    text = tmp_path / "songs.txt"
    text.write_text("sing a singing singer ring a ringing ringer and sing again\n" * 40, encoding="utf-8")
    fields = {"width": 16, "layers": 1, "heads": 2, "context": 12}
    given = LanguageSpec(model="gpt2", fields=fields, data=str(text), tokenizer="words", spelling=True)
    keys = ["steps=6", "batching.size=4", "optimiser.rate=1e-2", "warmup=1", "average.decay=0.9", "device=cpu"]
    base = named_run("gpt2", [str(text)], keys)
    run = type(base)("songs", given, base.settings)
    outcome = train(run, tmp_path / "run")
    model = clearhead.load(tmp_path / "run", device="cpu")
    task = given.open()
    assert not spelt(model) and spelt(task.model(0))
    assert task.evaluate(model, "valid", torch.device("cpu"))["loss"] == pytest.approx(outcome.figures["valid"]["loss"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer": "characters"}, "spelling is for a new model with tokenizer=words"),
        ({"tokenizer": "words", "model": "{folder}"}, "a checkpoint has learnt its words"),
    ],
)
def test_what_has_no_words_of_its_own_to_spell_is_refused(tmp_path: Path, changes, message):
    clearhead.save(small(), tmp_path / "run")
    given = {"model": "gpt2", "data": "tinyshakespeare"} | changes
    given["model"] = given["model"].format(folder=tmp_path / "run")
    with pytest.raises(ClearheadError, match=message):
        LanguageSpec(**given, spelling=True).open()
