"""Samples of tiny models of text from their folders: predictions, order, and attention against a recorded pass."""

import math

import torch

import clearhead
from clearhead.data.kinds import Question, Questions
from clearhead.data.learn_tokenizer import learn_tokenizer
from clearhead.models import create
from clearhead.report.samples import sample_predictions
from clearhead.report.text_samples import (
    language_samples,
    masked_samples,
    question_samples,
    text_samples,
    translation_samples,
    with_blanks,
)
from clearhead.tasks import fill
from tests.minilm import tiny
from tests.support import equal
from tests.writers import letters, trained_translator

PASSAGE = "She put the money in the bank by the river. The dog sat on the water and the cat was in tea."


def test_a_text_has_the_attention_of_cls_in_the_last_layer(tmp_path):
    model = clearhead.load(tiny(tmp_path / "bert", task="classify", num_classes=2), device="cpu")
    texts = ["the cat sat by the river", ("i like tea", "he put money in"), "the dog"]
    samples = text_samples(model, texts, [0, 1, 0])
    assert {s.text for s in samples} == set(texts)
    single = next(s for s in samples if s.text == "the dog")
    assert single.look.of == "[CLS]" and single.look.columns == ("[CLS]", "the", "dog", "[SEP]")
    ids = torch.tensor([clearhead.tokenizer(model).ids("the dog")])
    weights = clearhead.record(model, ids)["encoder.blocks.1.attention.weights"]
    assert equal(single.look.weights, weights[0, :, 0])
    assert [s.right for s in samples] == sorted(s.right for s in samples)


def test_a_model_that_measures_shows_the_worst_first_and_judges_nothing(tmp_path):
    model = clearhead.load(tiny(tmp_path / "bert", task="classify", num_classes=1), device="cpu")
    samples = text_samples(model, ["the cat", "a dog"], [9.0, 100.0])
    assert [s.text for s in samples] == ["a dog", "the cat"]
    assert all(s.right is None and s.probability is None for s in samples)


def test_a_continuation_shows_where_its_last_token_was_chosen_from(tmp_path):
    model = clearhead.load(letters(tmp_path / "gpt"), device="cpu")
    good, bad = "defgh", "xx"
    samples = language_samples(model, ["abc", "bc"], [good, bad])
    assert [(s.prompt, s.right) for s in samples] == [("bc", False), ("abc", True)]
    right = samples[1]
    assert right.continuation == "defgh" and right.last == "<end>"
    assert right.map.rows == tuple("abcdefgh") and right.look.of == "h"
    assert right.map.masked is not None and bool(right.map.masked[0, 1]) and not right.map.masked[1, 0]
    assert language_samples(model, ["abc"])[0].right is None


def test_a_translation_has_its_alignment_and_wrong_ones_come_first(tmp_path):
    model = clearhead.load(trained_translator(tmp_path / "t"), device="cpu")
    pairs = [("the cat", "das Katze"), ("a dog", "something else"), ("  ", "nothing")]
    wrong, right = translation_samples(model, pairs)
    assert (wrong.source, wrong.output, wrong.right) == ("a dog", "ein Hund", False)
    assert right.right and right.alignment.source[:2] == ("the", "cat")
    assert right.alignment.weights.shape == (len(right.alignment.target), len(right.alignment.source))


def test_blanks_are_words_that_the_model_could_say(tmp_path):
    model = clearhead.load(tiny(tmp_path / "bert", task="fill"), device="cpu")
    hidden = with_blanks(model, "the xyzzy cat sat on the bank of plugh", count=3)
    assert hidden.text.count("___") == 3 == len(hidden.words)
    assert "xyzzy" in hidden.text and "plugh" in hidden.text
    restored = hidden.text
    for word in hidden.words:
        restored = restored.replace("___", word, 1)
    assert restored == "the xyzzy cat sat on the bank of plugh"
    assert with_blanks(model, "the cat sat", count=2, seed=4) == with_blanks(model, "the cat sat", count=2, seed=4)


def test_filled_blanks_are_those_of_fill_with_the_attention_of_each_blank(tmp_path):
    model = clearhead.load(tiny(tmp_path / "bert", task="fill"), device="cpu")
    text = "the ___ sat on the ___"
    best = [guesses[0].word for guesses in fill(model, text).blanks]
    (sample,) = masked_samples(model, [(text, tuple(best))])  # pyright: ignore[reportArgumentType]
    assert sample.right and sample.filled == fill(model, text)
    assert [look.of for look in sample.looks] == ["[MASK]", "[MASK]"]
    assert sample.looks[0].columns[2] == "[MASK]" and not equal(sample.looks[0].mean, sample.looks[1].mean)
    (other,) = masked_samples(model, [(text, (best[0], "dog" if best[1] != "dog" else "cat"))])  # pyright: ignore
    assert not other.right


def test_an_answer_has_the_attention_of_its_first_token(tmp_path):
    tok = learn_tokenizer([PASSAGE], "wordpiece", 130, lowercase=True)
    sizes = {"context": 64, "width": 24, "layers": 2, "heads": 3, "task": "answer", "init_std": 0.4}
    place = clearhead.save(create("bert-base", vocab=tok.size, **sizes, seed=0, device="cpu"), tmp_path, tokenizer=tok)
    model = clearhead.load(place, device="cpu")
    row = Question("1", "a", "the dog sat on the water?", "The dog sat on the water.", (("water", 19),))
    (sample,) = sample_predictions(model, Questions([row]))
    first = sample.answer.text.split()[0].strip(".").lower()
    assert sample.look is not None and first.startswith(sample.look.of.lower())
    assert math.isclose(float(sample.look.mean.sum()), 1, rel_tol=1e-5)
    (long,) = question_samples(model, [Question("2", "a", "the dog sat?", PASSAGE * 4, (("river", 37),))])
    assert long.look is None
