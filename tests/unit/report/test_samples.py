"""A part of a data set is sampled by its kind, whatever that is."""

import pytest
import torch

import clearhead
from clearhead.data.kinds import Labelled, Parallel, Pictures, Running
from clearhead.errors import ClearheadError
from clearhead.report.picture_samples import picture_samples
from clearhead.report.samples import sample_predictions
from tests.minilm import tiny
from tests.unit.report.tiny_vit import pictures, vit
from tests.writers import letters, trained_translator


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
