"""Patches that were left out are painted from the others: what is seen, what counts, and a plain ViT at the end."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import clearhead
from clearhead.errors import ClearheadError
from clearhead.layers import Pass
from clearhead.layers.picture_input import cut
from clearhead.layers.stack import set_row_skipping
from clearhead.models.vit import ViT
from clearhead.ops.edges import WAYS, edges
from clearhead.recipes.start import named_run
from clearhead.train.companions import accompany, companion
from clearhead.train.loop import Watch, train
from clearhead.train.painted import EVEN, Painter, unlike
from clearhead.train.pictures import PictureBatch, PictureSpec
from tests.support import equal
from tests.unit.train.cut_off import weights_of_both

SIZES = {"image": 8, "patch": 2, "width": 32, "layers": 3, "heads": 2, "num_classes": 5, "pooling": "mean"}


def vit(**changes) -> ViT:
    model = clearhead.create("vit-ti16", device="cpu", seed=0, **SIZES | changes).train()
    assert isinstance(model, ViT)
    return model


def painting(model: ViT, images: Tensor, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """What the head reads, what is painted, and which patches were seen."""
    painter = companion(model, Painter)
    assert painter is not None
    torch.manual_seed(seed)
    hidden, rows, at = model.halfway(images, painter.layer)
    return hidden, painter.painted(rows, at), at


def test_patches_are_those_that_unfold_cuts():
    images = torch.randn(2, 3, 8, 12)
    assert torch.equal(cut(images, (2, 4)), F.unfold(images, (2, 4), stride=(2, 4)).transpose(1, 2))


@pytest.mark.parametrize("changes", [{}, {"pooling": "cls"}, {"rotary_base": 100.0}, {"final_norm": "pooled"}])
def test_what_the_head_reads_is_the_same_as_without_looking_at_rows_on_the_way(changes):
    model, images = vit(**changes), torch.randn(4, 3, 8, 8)
    model.keep_tokens(10)
    accompany(model, Painter(model.config))
    hidden, painted, at = painting(model, images)
    torch.manual_seed(0)
    assert equal(hidden, model.hidden(images))
    assert painted.shape == (4, 16, 12) and at.shape == (4, 10)


def test_rows_on_the_way_are_those_of_their_own_pictures_when_blocks_are_skipped():
    """The painting of a picture depends on that picture, wherever skipping moves its rows."""
    model, images = vit(), torch.randn(6, 3, 8, 8)
    model.keep_tokens(10)
    set_row_skipping(model, 0.3)
    accompany(model, Painter(model.config))
    other = images.clone()
    other[2] += 1
    _, first, _ = painting(model, images)
    _, second, _ = painting(model, other)
    changed = (first - second).abs().amax((1, 2)) > 1e-4
    assert changed.tolist() == [False, False, True, False, False, False]


def test_nothing_is_seen_of_what_was_left_out():
    model, images = vit(), torch.randn(3, 3, 8, 8)
    model.keep_tokens(9)
    accompany(model, Painter(model.config))
    hidden, painted, at = painting(model, images)
    left_out = torch.ones(3, 16, dtype=torch.bool).scatter(1, at, False)
    shown = left_out.view(3, 1, 4, 4).repeat_interleave(2, 2).repeat_interleave(2, 3)
    again, repainted, _ = painting(model, torch.where(shown, torch.randn(()) * 5, images))
    assert torch.equal(hidden, again) and torch.equal(painted, repainted)


def test_only_patches_that_were_left_out_count_each_on_its_own_scale():
    images, at = torch.randn(2, 3, 8, 8) * 3 + 1, torch.tensor([[0, 5, 7], [15, 2, 4]])
    true = cut(images, (2, 2))
    scaled = (true - true.mean(-1, keepdim=True)) / (true.var(-1, keepdim=True) + EVEN).sqrt()
    painter = Painter(vit().config)
    wanted, missing = painter.wanted(images), painter.missing(at)
    assert equal(wanted, scaled)
    painted = scaled.scatter(1, at[:, :, None].expand(-1, -1, 12), 99.0)
    assert unlike(painted, wanted, missing).abs().max() < 1e-9
    assert equal(unlike(painted + 0.5, wanted, missing), torch.full((2,), 0.25))
    everything = torch.arange(16).expand(2, -1)
    assert torch.equal(unlike(painted, wanted, painter.missing(everything)), torch.zeros(2))


def test_squares_are_painted_as_one_patch_each_from_the_means_of_what_is_there():
    """Independently: each square's rows are looked up and averaged one by one; one without any is the hole."""
    model, images = vit(), torch.randn(5, 3, 8, 8)
    model.keep_tokens(5)
    painter = Painter(model.config, torch.Generator().manual_seed(0), square=2)
    larger = Painter(vit(patch=4).config, torch.Generator().manual_seed(0))
    with torch.no_grad():
        larger.hole.normal_()
        painter.hole.copy_(larger.hole)
    torch.manual_seed(0)
    _, rows, at = model.halfway(images, painter.layer)
    read, there = larger.read(rows), [[0] * 4 for _ in images]
    x = torch.zeros(5, 4, larger.places.weight.shape[1])
    for picture, patches in enumerate(at.tolist()):
        for number, patch in enumerate(patches):
            square = patch // 4 // 2 * 2 + patch % 4 // 2
            x[picture, square] += read[picture, number]
            there[picture][square] += 1
        for square, count in enumerate(there[picture]):
            x[picture, square] = x[picture, square] / count if count else larger.hole
    assert {0, 1, 2} <= {count for counts in there for count in counts}
    block = larger.block(x + larger.places.weight, Pass(), 0)
    assert equal(painter.painted(rows, at), larger.paint(larger.norm(block)))
    shares = 1 - torch.tensor(there) / 4
    assert torch.equal(painter.missing(at), shares) and equal(painter.wanted(images), larger.wanted(images))
    off = (painter.painted(rows, at) - larger.wanted(images)).square().mean(2)
    assert equal(painter(rows, at, images), (off * shares).sum(1) / shares.sum(1))


def test_a_quarter_of_one_square_is_as_far_off_as_that_square():
    painter, images = Painter(vit().config, square=2), torch.randn(2, 3, 8, 8)
    missing = painter.missing(torch.arange(15).expand(2, -1))
    assert missing.tolist() == [[0.0, 0.0, 0.0, 0.25]] * 2
    wanted = painter.wanted(images)
    assert equal(unlike(wanted + 0.5, wanted, missing), torch.full((2,), 0.25))


@pytest.mark.parametrize(("patch", "cell", "beyond"), [(8, 4, 0), (4, 4, 0), (2, 2, 1), (1, 1, 2)])
def test_edges_of_a_patch_are_those_of_its_cells_on_its_own_scale(patch, cell, beyond):
    images = torch.randn(2, 3, 16, 16)
    found = Painter(vit(image=16, patch=patch).config, paints="edges").wanted(images)
    across, cells = 16 // patch, patch // cell
    whole = edges(images, (cell, cell), (beyond, beyond)).unflatten(2, (across, cells)).unflatten(4, (across, cells))
    of_second_row = whole[:, :, 1, :, 0].flatten(1)
    scaled = of_second_row - of_second_row.mean(1, keepdim=True)
    scaled = scaled / (of_second_row.var(1, keepdim=True) + EVEN).sqrt()
    assert found.shape == (2, across**2, 3 * WAYS * cells**2) and equal(found[:, across], scaled)


def spec(**changes) -> PictureSpec:
    fields = {"width": 32, "layers": 3, "heads": 2, "pooling": "mean"}
    usual = {"model": "vit-ti16", "data": "digits", "fields": fields, "kept_tokens": 12, "painting": 2.0}
    return PictureSpec(**usual | changes)


def test_painting_is_added_to_the_loss_where_patches_are_left_out_and_nowhere_else():
    task = spec(kept_tokens=(12, 0.5, 16)).open()
    model = task.model(0).train()
    assert isinstance(model, ViT)
    batch = PictureBatch(torch.randn(4, 1, 8, 8), torch.tensor([1, 2, 3, 4]))
    task.enter(model, 0.0)
    torch.manual_seed(3)
    losses = task.losses(model, batch)
    _, painted, at = painting(model, batch.pixels, seed=3)
    torch.manual_seed(3)
    classes = F.cross_entropy(model.head(model.hidden(batch.pixels)), batch.targets, reduction="sum")
    painter = companion(model, Painter)
    assert painter is not None and equal(
        losses["unlike"], unlike(painted, painter.wanted(batch.pixels), painter.missing(at)).sum()
    )
    assert equal(losses["loss"], classes + 2.0 * losses["unlike"])
    task.enter(model, 0.5)
    assert sorted(task.losses(model, batch)) == ["accuracy", "loss"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"kept_tokens": None}, "painting is for patches that are left out: set kept_tokens"),
        ({"kept_tokens": 16}, "painting is for patches that are left out: set kept_tokens"),
        ({"fields": {"patch": 4, "stride": 2}, "kept_tokens": 8}, "painting is for patches that don't overlap"),
        ({"painting": -1.0}, "painting"),
        ({"paints": "words"}, "paints must be one of pixels, edges"),
        ({"square": 3}, "4 x 4 patches can't be painted in squares of 3 x 3"),
        ({"square": 0}, "square must be a whole number from 1"),
        ({"square": 2, "painting": 0.0}, "square=2 is for painting: set that too"),
        ({"paints": "edges", "painting": 0.0}, "paints=edges is for painting: set that too"),
    ],
)
def test_what_can_not_be_painted_is_told(changes, told):
    with pytest.raises(ClearheadError, match=told):
        spec(**changes).open()


@pytest.mark.parametrize("how", ["paints=pixels", "paints=edges", "paints=edges square=2"])
def test_a_run_learns_to_paint_goes_on_exactly_and_leaves_a_plain_vit(tmp_path, how):
    words = ["device=cpu", "steps=30", "epochs=none", "painting=2", "kept_tokens=12", "fields.layers=3", "log_every=1"]
    words += ["fields.width=32", "fields.heads=2", "validate_every=15", "fields.pooling=mean", "warmup=5"]
    words += how.split()
    run, off = named_run("vit-digits", [], words), []
    train(run, tmp_path / "whole", Watch(updated=lambda step, steps, figures: off.append(figures["unlike"])))
    assert sum(off[-5:]) < 0.8 * sum(off[:5])
    whole = weights_of_both(run, tmp_path, at=20)
    assert not [name for name in whole if "paint" in name]
    assert clearhead.load(tmp_path / "whole", device="cpu").config.layers == 3
