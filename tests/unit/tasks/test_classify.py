"""`classify` against transformers' pipelines, and what batches, cuts and broken pictures do to it."""

import logging

import numpy as np
import pytest
import torch

import clearhead
from clearhead.errors import ClearheadError
from clearhead.models import create
from clearhead.runs.labels import Labels, name_classes
from clearhead.tasks.classify import Verdict, classify, shortened_row, verdict
from tests.minilm import tiny
from tests.support import TOLERANCE, peer

NAMES = ("good", "bad", "neither")
TEXTS = ["the cat", "a dog sat on the bank of the river .", "money", "rates rose , she put money in the bank"]
PAIRS = [("the cat", "a dog"), ("he sat by the river", "she was on the bank of the river"), ("tea", "i like tea")]
LONG = ("the cat sat on the bank , the dog sat", "i like tea , she put money in the bank")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tiny(tmp_path_factory.mktemp("bert") / "tiny", task="classify", num_classes=3)
    model = clearhead.load(place, device="cpu")
    name_classes(model, NAMES)
    return clearhead.save(model, place)


@pytest.fixture
def model(folder):
    return clearhead.load(folder, device="cpu")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    from PIL import Image

    place, random = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for name, shape in {"a.png": (20, 30, 3), "b.jpg": (64, 9, 3), "grey.png": (16, 16), "c.webp": (8, 8, 3)}.items():
        Image.fromarray(random.integers(0, 256, shape, np.uint8)).save(place / name)
    return place


@pytest.fixture(scope="module")
def vit_folder(tmp_path_factory):
    vit = create("vit-ti16", image=(16, 24), patch=8, width=24, layers=2, heads=3, num_classes=3, seed=0, device="cpu")
    with torch.no_grad():
        for weight in vit.parameters():
            weight.normal_(0.0, 0.3)
    name_classes(vit, NAMES)
    place = tmp_path_factory.mktemp("vit")
    return clearhead.save(vit, place, preprocessor=clearhead.runs.preprocessor(vit))


def same(found: list[Verdict], expected: list[list[dict]]) -> bool:
    """As transformers' pipelines answer: the same classes in the same order, with the same probabilities."""
    assert len(found) == len(expected)
    return all(
        [score.name for score in ours.classes] == [answer["label"] for answer in theirs]
        and np.allclose([score.probability for score in ours.classes], [a["score"] for a in theirs], atol=TOLERANCE)
        for ours, theirs in zip(found, expected, strict=True)
    )


def pipeline(folder, **options):
    transformers = peer("transformers")
    theirs = transformers.BertForSequenceClassification.from_pretrained(folder)
    tok = transformers.AutoTokenizer.from_pretrained(folder, model_max_length=16)
    return transformers.pipeline("text-classification", model=theirs, tokenizer=tok, truncation=True, **options)


def test_texts_and_pairs_get_the_classes_that_transformers_gives(folder, model):
    theirs = pipeline(folder, top_k=None)
    assert same(classify(model, TEXTS), theirs(TEXTS))
    given = [*PAIRS, LONG, LONG[::-1], (LONG[0], "tea"), ("tea", LONG[1] + LONG[1])]
    expected = [theirs({"text": first, "text_pair": second}) for first, second in given]
    assert same(classify(model, given), expected)


def test_a_long_text_is_cut_as_transformers_cuts_it_and_that_is_said(folder, model, caplog):
    long = ["the cat sat on the bank . " * 4, "tea"]
    with caplog.at_level(logging.WARNING, logger="clearhead"):
        found = classify(model, long)
    assert "1 of 2 texts were cut at 16 tokens" in caplog.text
    assert same(found, pipeline(folder, top_k=None)(long))


def test_classes_that_do_not_exclude_each_other_have_a_probability_each(folder, tmp_path):
    model = clearhead.load(folder, device="cpu")
    name_classes(model, NAMES, "multi_label_classification")
    place = clearhead.save(model, tmp_path, tokenizer=clearhead.tokenizer(folder))
    found = classify(clearhead.load(place, device="cpu"), TEXTS)
    assert same(found, pipeline(place, top_k=None)(TEXTS))
    assert all(abs(sum(score.probability for score in one.classes) - 1) > 1e-3 for one in found)


def test_a_model_of_one_class_measures(tmp_path):
    place = tiny(tmp_path / "tiny", task="classify", num_classes=1)
    model = clearhead.load(place, device="cpu")
    found = classify(model, TEXTS)
    theirs = pipeline(place, function_to_apply="none")(TEXTS)
    assert all(one.classes == () for one in found)
    assert np.allclose([one.value for one in found], [answer["score"] for answer in theirs], atol=TOLERANCE)


def test_several_measures_at_once_are_no_classes():
    with pytest.raises(ClearheadError, match="measures 2 things"):
        verdict(torch.zeros(2), Labels(("a", "b"), "regression"))


def test_batches_and_order_change_nothing(model):
    inputs = [*TEXTS, *PAIRS]
    alone = [classify(model, [one])[0] for one in inputs]
    done = []
    for batch in (1, 2, 3, 32):
        done.clear()
        found = classify(model, inputs, batch=batch, progress=done.append)
        assert [[s.name for s in one.classes] for one in found] == [[s.name for s in one.classes] for one in alone]
        chances = [[[s.probability for s in one.classes] for one in some] for some in (found, alone)]
        assert np.allclose(*chances, atol=TOLERANCE) and sum(done) == len(inputs)


def test_top_takes_the_likeliest(model):
    everything, two = classify(model, TEXTS), classify(model, TEXTS, 2)
    assert [one.classes[:2] for one in everything] == [one.classes for one in two]
    assert classify(model, TEXTS, 99) == everything and classify(model, []) == []
    assert abs(sum(score.probability for score in everything[0].classes) - 1) < 1e-6


def test_of_a_pair_the_longer_is_cut_and_both_keep_their_ends():
    ids, segments = [1, 11, 12, 13, 14, 15, 2, 21, 22, 3], [0] * 7 + [1] * 3
    assert shortened_row(ids, segments, 8) == ([1, 11, 12, 13, 2, 21, 22, 3], [0] * 5 + [1] * 3)
    assert shortened_row(ids, segments, 6) == ([1, 11, 12, 2, 21, 3], [0] * 4 + [1] * 2)
    with pytest.raises(ClearheadError, match="pair"):
        shortened_row(ids, segments, 4)


def test_pictures_get_the_classes_that_transformers_gives(vit_folder, pictures):
    transformers = peer("transformers")
    theirs = transformers.ViTForImageClassification.from_pretrained(vit_folder)
    prepare = transformers.ViTImageProcessorPil.from_pretrained(vit_folder)
    files = sorted(pictures.iterdir())
    expected = transformers.pipeline("image-classification", model=theirs, image_processor=prepare, top_k=3)
    model = clearhead.load(vit_folder, device="cpu")
    for batch in (1, 3, 32):
        assert same(classify(model, files, batch=batch), expected([str(file) for file in files]))


def test_pictures_may_be_arrays_or_opened_already(vit_folder, pictures):
    from PIL import Image

    model = clearhead.load(vit_folder, device="cpu")
    with Image.open(pictures / "a.png") as opened:
        assert classify(model, [opened, np.asarray(opened)]) == classify(model, [pictures / "a.png"] * 2)


def test_a_broken_picture_is_named_and_may_be_passed_over(vit_folder, pictures, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes((pictures / "a.png").read_bytes()[:60])
    model = clearhead.load(vit_folder, device="cpu")
    with pytest.raises(ClearheadError, match=r"broken\.png"):
        classify(model, [pictures / "a.png", broken])
    found = classify(model, [broken, pictures / "a.png", tmp_path / "none.png"], skip_broken=True)
    assert "broken.png" in (found[0].problem or "") and "none.png" in (found[2].problem or "")
    assert found[1] == classify(model, [pictures / "a.png"])[0] and found[1].problem is None
    assert classify(model, [broken], skip_broken=True)[0].classes == ()


def test_a_grey_model_reads_pictures_as_record_does(pictures):
    grey = create("vit-ti16", image=16, patch=8, channels=1, width=24, layers=1, heads=3, seed=0, device="cpu")
    with torch.no_grad():
        grey.get_parameter("output.weight").normal_()
    recorded = clearhead.record(grey, pictures / "a.png").output.softmax(-1)[0]
    best = classify(grey, [pictures / "a.png"], 1)[0].classes[0]
    assert best.number == int(recorded.argmax()) and abs(best.probability - recorded.max().item()) <= TOLERANCE


def test_mistakes_are_told_in_one_line(model, vit_folder, tmp_path):
    vit = clearhead.load(vit_folder, device="cpu")
    headless = clearhead.load(tiny(tmp_path / "headless"), device="cpu")
    cases = [
        (create("gpt-nano", device="cpu"), TEXTS, {}, "not by a GPT"),
        (headless, TEXTS, {}, "no classes for a text \\(it has no task\\)"),
        (model, [3], {}, "not a int"),
        (model, [("a", "b", "c")], {}, "not a tuple"),
        (model, TEXTS, {"top": 0}, "at least one class"),
        (model, TEXTS, {"batch": 0}, "at least one input"),
        (vit, ["no such file"], {}, "no such file"),
    ]
    for one, inputs, options, message in cases:
        with pytest.raises(ClearheadError, match=message) as caught:
            classify(one, inputs, **options)
        assert "\n" not in str(caught.value)
