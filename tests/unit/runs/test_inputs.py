"""What makes words and pictures fit a model: from its name, its folder, or the files beside its weights."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import clearhead
from clearhead import ClearheadError
from clearhead.data import Preprocessor, word_tokenizer
from clearhead.runs import preprocessor


def test_a_name_with_a_vocabulary_has_its_tokenizer_built_in():
    assert clearhead.tokenizer("gpt-nano").ids("CAB") == [2, 0, 1]
    deck = clearhead.tokenizer("deck")
    assert deck.pieces(deck.ids("This is Computer Vision Class")) == ["This", "is", "Computer", "Vision", "Class"]
    assert clearhead.tokenizer(clearhead.create("deck", device="cpu")).ids("is") == deck.ids("is")


def test_a_name_without_a_vocabulary_says_so():
    for source in ("gpt2", clearhead.create("gpt2", device="meta")):
        with pytest.raises(ClearheadError):
            clearhead.tokenizer(source)


def test_a_tokenizer_is_found_beside_a_weights_file_and_by_its_own_name(tmp_path: Path):
    word_tokenizer("one two").save(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")
    for source in (tmp_path, str(tmp_path), tmp_path / "model.safetensors", tmp_path / "tokenizer.json"):
        assert clearhead.tokenizer(source).ids("two") == [1]


def test_without_files_a_picture_becomes_the_models_size_with_pixels_from_minus_one_to_one():
    made = preprocessor(clearhead.create("vit-c10", device="cpu", layers=1))
    assert made == Preprocessor(resize=(32, 32), mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))


def test_a_model_loaded_at_another_resolution_gets_its_pictures_in_that(tmp_path: Path):
    saved = Preprocessor(resize=36, crop=(32, 32), resample="bicubic", mean=(0.1, 0.2, 0.3))
    clearhead.save(clearhead.create("vit-c10", device="cpu", layers=1), tmp_path, preprocessor=saved)
    assert preprocessor(clearhead.load(tmp_path, device="cpu")) == saved
    larger = preprocessor(clearhead.load(tmp_path, image=48, device="cpu"))
    assert larger == replace(saved, resize=(48, 48), crop=None)


def test_the_files_beside_a_weights_file_are_used_too(tmp_path: Path):
    saved = Preprocessor(resize=(32, 32), mean=(0.1, 0.2, 0.3))
    clearhead.save(clearhead.create("vit-c10", device="cpu", layers=1), tmp_path, preprocessor=saved)
    assert preprocessor(clearhead.load(tmp_path / "model.safetensors", device="cpu")) == saved


def test_what_timm_says_of_its_pictures_is_honoured(tmp_path: Path):
    clearhead.save(clearhead.create("vit-c10", device="cpu", layers=1), tmp_path)
    model = clearhead.load(tmp_path, device="cpu")
    config = {"pretrained_cfg": {"input_size": [3, 32, 32], "crop_pct": 1.0, "mean": [0, 0, 0], "std": [1, 1, 1]}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert preprocessor(model).mean == (0, 0, 0)


def test_a_model_of_words_takes_no_pictures():
    with pytest.raises(ClearheadError, match="a gpt model takes no pictures"):
        preprocessor(clearhead.create("deck", device="cpu"))
