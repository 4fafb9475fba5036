"""Samples of a tiny ViT from its folder: predictions, order, and the attention of what the head reads."""

import pytest
import torch

from clearhead.report.picture_samples import picture_samples
from clearhead.tasks import classify
from tests.unit.report.tiny_vit import pictures, vit


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
