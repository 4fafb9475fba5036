"""Samples of tiny models from their folders: predictions, order, and attention against a recorded pass."""

import math

import pytest
import torch

import clearhead
from clearhead.data import Preprocessor
from clearhead.data.kinds import Labelled, Parallel, Pictures, Question, Questions, Running
from clearhead.data.learn_tokenizer import learn_tokenizer
from clearhead.errors import ClearheadError
from clearhead.models import create
from clearhead.report.samples import (
    language_samples,
    masked_samples,
    picture_samples,
    question_samples,
    sample_predictions,
    text_samples,
    translation_samples,
    with_blanks,
)
from clearhead.runs.labels import name_classes
from clearhead.tasks import classify, fill
from tests.minilm import tiny
from tests.support import equal
from tests.writers import letters, trained_translator

PASSAGE = "She put the money in the bank by the river. The dog sat on the water and the cat was in tea."


def vit(folder, **changes):
    sizes = {"image": 8, "patch": 4, "channels": 1, "width": 12, "heads": 3, "layers": 2, "num_classes": 3}
    model = create("vit-ti16", **sizes | changes, seed=0, device="cpu")
    with torch.no_grad():
        model.output.weight.normal_(generator=torch.Generator().manual_seed(1))
    name_classes(model, ("ant", "bee", "<cow>"))
    prepare = Preprocessor(resize=8, crop=(8, 8), mean=(0.3, 0.3, 0.3), std=(0.4, 0.4, 0.4))
    return clearhead.load(clearhead.save(model, folder, preprocessor=prepare), device="cpu")


def pictures(count: int, channels: int = 1) -> torch.Tensor:
    random = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, channels, 8, 8), dtype=torch.uint8, generator=random)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_pictures_come_with_their_class_and_the_attention_of_what_the_head_reads(tmp_path, pooling, channels):
    model, given = vit(tmp_path / "v", pooling=pooling, channels=channels), pictures(5, channels)
    samples = picture_samples(model, given, [0, 1, 2, 0, 1], count=5)
    arrays = [p.permute(1, 2, 0).numpy() if channels == 3 else p[0].numpy() for p in given]
    said = classify(model, arrays, top=1)
    assert sorted(s.predicted for s in samples) == sorted(v.classes[0].name for v in said)
    for sample in samples:
        place = next(n for n in range(5) if torch.equal(given[n], sample.pixels))  # shown as the model saw it
        assert sample.truth == ("ant", "bee", "<cow>")[[0, 1, 2, 0, 1][place]]
        assert sample.predicted == said[place].classes[0].name
        assert sample.probability == pytest.approx(said[place].classes[0].probability, abs=1e-6)
        assert sample.attention.shape == (2, 3, 2, 2) and sample.over.shape == (8, 8)
        assert sample.over[0, 0] == pytest.approx(float(sample.attention[-1, :, 0, 0].mean()))


def test_mistakes_come_first_the_surest_before_all_and_some_right_ones_are_kept(tmp_path):
    scores = torch.tensor([[5.0, 0, 0], [0, 3.0, 0], [9.0, 0, 0], [0, 0, 1.0], [7.0, 0, 0], [2.0, 0, 0]])
    truths = torch.tensor([0, 1, 1, 2, 1, 2])
    model = vit(tmp_path / "v")
    found = picture_samples(model, pictures(6), truths, count=4, scores=scores)
    assert [(s.predicted, s.truth) for s in found] == [("ant", "bee"), ("ant", "bee"), ("ant", "<cow>"), ("<cow>",) * 2]
    found = picture_samples(model, pictures(6), truths, scores=scores)
    assert [s.right for s in found] == [False, False, False, True, True, True]


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


def test_a_part_of_a_data_set_is_sampled_by_its_kind(tmp_path):
    by_picture = sample_predictions(vit(tmp_path / "v"), Pictures(pictures(3), torch.tensor([0, 1, 2])), count=2)
    assert len(by_picture) == 2
    assert sample_predictions(vit(tmp_path / "v"), Pictures(pictures(0), torch.tensor([]))) == []
    bert = clearhead.load(tiny(tmp_path / "c", task="classify", num_classes=2), device="cpu")
    labelled = Labelled(["the cat", "a dog"], torch.tensor([0, 1]), ["in tea", "by the river"])
    assert {s.text for s in sample_predictions(bert, labelled)} == {("the cat", "in tea"), ("a dog", "by the river")}
    translator = clearhead.load(trained_translator(tmp_path / "t"), device="cpu")
    assert sample_predictions(translator, Parallel(["a cat"], ["ein Katze"]))[0].right
    gpt = clearhead.load(letters(tmp_path / "g"), device="cpu")
    (written,) = sample_predictions(gpt, Running(["", "abcdefgh" * 40]), count=1)
    assert len(written.prompt) <= gpt.config.context // 2
    filler = clearhead.load(tiny(tmp_path / "f", task="fill"), device="cpu")
    (filled,) = sample_predictions(filler, Running(["the cat sat on the bank of the river " * 9]))
    assert len(filled.truths) == 3


def test_what_does_not_fit_is_refused_in_one_line(tmp_path):
    gpt = clearhead.load(letters(tmp_path / "g"), device="cpu")
    with pytest.raises(ClearheadError, match="classified by a ViT, not by a GPT"):
        picture_samples(gpt, pictures(1), [0])
    with pytest.raises(ClearheadError, match="no samples for a list"):
        sample_predictions(gpt, ["a"])  # pyright: ignore[reportArgumentType]
