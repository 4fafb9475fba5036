"""Sharpness-aware updates: the gradient of a point uphill moves the weights from where they are."""

import math

import pytest
import torch
from torch import nn

from clearhead.errors import ClearheadError
from clearhead.train.optimiser import clip_gradients
from clearhead.train.settings import Settings
from clearhead.train.sharpness import uphill
from tests.unit.train.test_recorded import noise, same, trained

__all__ = ["noise"]


def test_inside_the_weights_stand_the_radius_along_the_gradient_and_behind_where_they_were():
    weights = [nn.Parameter(torch.tensor([1.0, 2.0])), nn.Parameter(torch.tensor([[3.0]])), nn.Parameter(torch.ones(2))]
    weights[0].grad, weights[1].grad = torch.tensor([0.0, 3.0]), torch.tensor([[4.0]])
    with uphill(weights, 0.5):
        assert torch.allclose(weights[0], torch.tensor([1.0, 2.3])) and torch.allclose(weights[1], torch.tensor(3.4))
        assert weights[0].grad is None and torch.equal(weights[2], torch.ones(2))
    assert torch.equal(weights[0], torch.tensor([1.0, 2.0])) and torch.equal(weights[1], torch.tensor([[3.0]]))


def test_without_a_slope_nothing_moves_and_an_error_inside_puts_the_weights_back():
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.zeros(3)
    with uphill([weight], 0.5):
        assert torch.equal(weight, torch.ones(3))
    weight.grad = torch.ones(3)
    with pytest.raises(KeyError), uphill([weight], 0.5):
        raise KeyError
    assert torch.equal(weight, torch.ones(3))


def test_an_update_is_the_one_of_foret_and_others(tmp_path, monkeypatch):
    """Beside a loop written out: two gradients of the same batch by hand, the second one uphill, then plain descent."""
    from clearhead.train.loop import Trainer

    def by_hand(self, batches, scale):
        weights = list(self.model.parameters())
        loss = self.spread.compute(batches[0])["loss"] * scale
        first = torch.autograd.grad(loss, weights)
        length = math.sqrt(sum(float((g.double() ** 2).sum()) for g in first))
        with torch.no_grad():
            for weight, slope in zip(weights, first, strict=True):
                weight += 0.05 * slope / length
        second = torch.autograd.grad(self.spread.compute(batches[0])["loss"] * scale, weights)
        with torch.no_grad():
            for weight, slope, uphill_slope in zip(weights, first, second, strict=True):
                weight -= 0.05 * slope / length
                weight.grad = uphill_slope
        norm = clip_gradients(weights, self.updater.clip)
        self.updater.step(None)
        self.updater.zero_grad()
        self.ema.blend(self.model)
        return {"loss": loss.detach()}, norm

    found = trained(tmp_path / "ours", "cpu", sharpness=0.05, steps=4)
    plain = trained(tmp_path / "plain", "cpu", steps=4)
    monkeypatch.setattr(Trainer, "_computed", by_hand)
    expected = trained(tmp_path / "hand", "cpu", sharpness=0.05, steps=4)
    assert same(found, expected, 1e-3) and not same(found, plain, 5e-3)


def test_it_may_begin_late(tmp_path):
    late = trained(tmp_path / "late", "cpu", sharpness=(0.0, 0.5, 0.05), steps=4)
    assert late.radius == 0.05
    none = trained(tmp_path / "none", "cpu", sharpness=(0.0, 0.99, 0.05), steps=4)
    assert same(none, trained(tmp_path / "plain", "cpu", steps=4), 0.0) and not same(late, none, 0.0)


def test_weights_in_pieces_are_not_moved_uphill():
    with pytest.raises(ClearheadError, match="sharpness and shard don't go together"):
        Settings(steps=1, sharpness=0.1, shard=True)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_recorded_it_trains_as_it_does_without_a_graph(tmp_path):
    late = (0.0, 0.5, 0.05)
    plain = trained(tmp_path / "plain", "cuda", sharpness=late)
    assert same(plain, trained(tmp_path / "recorded", "cuda", graph=True, sharpness=late), 2e-3)
