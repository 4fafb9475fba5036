"""Targets by what a model says itself: what it has said of each class, mixed pictures too, and how much that counts."""

import pytest
import torch
import torch.nn.functional as F

import clearhead
from clearhead.errors import ClearheadError
from clearhead.recipes.start import named_run
from clearhead.train.companions import companion
from clearhead.train.confused import KEPT, Confused
from clearhead.train.pictures import PictureBatch, PictureSpec
from tests.support import equal
from tests.unit.train.cut_off import weights_of_both

CLASSES = 5


def test_at_first_each_class_is_taken_for_itself():
    labels = torch.tensor([3, 0, 4])
    assert torch.equal(Confused(CLASSES).soft(labels, torch.randn(3, CLASSES)), F.one_hot(labels, CLASSES).float())


def test_of_whole_pictures_it_is_the_mean_answer_of_each_class_where_old_ones_fade():
    torch.manual_seed(0)
    confused, labels = Confused(CLASSES), torch.randint(0, CLASSES, (3, 40))
    scores = torch.randn(3, 40, CLASSES)
    for some, said in zip(labels, scores, strict=True):
        confused.soft(some, said)
    for number in range(CLASSES):
        total, count = KEPT**3 * F.one_hot(torch.tensor(number), CLASSES).double(), KEPT**3
        for update in range(3):
            for label, said in zip(labels[update].tolist(), scores[update].double(), strict=True):
                if label == number:
                    total, count = total + KEPT ** (2 - update) * said.softmax(-1), count + KEPT ** (2 - update)
        assert torch.allclose(confused.answers()[number].double(), total / count, atol=1e-6)


def test_what_is_said_of_mixed_pictures_is_told_apart_by_their_labels():
    """A model that answers every mixture with the mixture of its answers: those are found again."""
    torch.manual_seed(0)
    true = (3 * torch.eye(CLASSES) + torch.rand(CLASSES, CLASSES)).softmax(-1)
    confused = Confused(CLASSES)
    for _ in range(600):
        share = torch.rand(500, 1)
        first, second = (F.one_hot(torch.randint(0, CLASSES, (500,)), CLASSES).float() for _ in range(2))
        labels = share * first + (1 - share) * second
        confused.soft(labels, (labels @ true).log())
    assert (confused.answers() - true).abs().max() < 0.02
    naive = confused.said / confused.seen.unsqueeze(1)
    assert (naive - true).abs().max() > 0.1  # as if a mixed picture were all of its first label's


def spec(**changes) -> PictureSpec:
    fields = {"width": 32, "layers": 2, "heads": 2, "pooling": "mean"}
    return PictureSpec(**{"model": "vit-ti16", "data": "digits", "fields": fields, "confusion": 0.3} | changes)


@pytest.mark.parametrize("mixed", [False, True])
def test_so_large_a_share_of_the_targets_is_what_the_model_says(mixed):
    task = spec(smoothing=0.1).open()
    model = task.model(0).train()
    confused = companion(model, Confused)
    assert confused is not None
    confused.said.copy_(torch.rand(10, 10) + torch.eye(10))
    confused.seen.copy_(confused.said.sum(1))
    confused.squares.copy_(confused.seen)
    targets = torch.rand(6, 10).softmax(-1) if mixed else torch.tensor([1, 2, 3, 4, 5, 9])
    batch, answers = PictureBatch(torch.randn(6, 1, 8, 8), targets), confused.answers()
    shares = targets if mixed else F.one_hot(targets, 10).float()
    scores = model.head(model.hidden(batch.pixels))
    wanted = 0.7 * (0.9 * shares + 0.01) + 0.3 * shares @ answers
    assert equal(task.losses(model, batch)["loss"], -(wanted * scores.log_softmax(-1)).sum())
    assert not torch.equal(confused.answers(), answers)


def test_a_share_is_below_one():
    with pytest.raises(ClearheadError, match="confusion must be at least 0 and below 1"):
        spec(confusion=1.0)


def test_a_run_goes_on_exactly_and_leaves_a_plain_vit(tmp_path):
    words = ["device=cpu", "steps=30", "epochs=none", "confusion=0.5", "fields.layers=2", "fields.width=32"]
    words += ["fields.heads=2", "validate_every=15", "warmup=5", "augmentation.mixup=0.5"]
    run = named_run("vit-digits", [], words)
    whole = weights_of_both(run, tmp_path, at=20)
    assert not [name for name in whole if "confused" in name]
    assert clearhead.load(tmp_path / "whole", device="cpu").config.layers == 2
