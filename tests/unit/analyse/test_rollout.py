"""Rollout against products by hand and a few lines of numpy."""

import numpy as np
import pytest
import torch

from clearhead.analyse import patch_maps, rollout
from clearhead.errors import ClearheadError
from clearhead.models import create
from clearhead.tasks import record
from clearhead.trace import Trace


def traced(*layers: list, stack: str = "encoder") -> Trace:
    """A trace of these weights, (heads, rows, columns) a layer."""
    sites = {f"{stack}.blocks.{n}.attention.weights": torch.tensor([layer]) for n, layer in enumerate(layers)}
    return Trace(sites)


ONE_HEAD = [[[1.0, 0.0], [0.5, 0.5]]]
TWO_HEADS = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]


def test_two_layers_multiplied_by_hand():
    """(A + I) / 2 is [[1, 0], [1/4, 3/4]] in the first layer and [[3/4, 1/4], [1/4, 3/4]] in the second."""
    first, second = rollout(traced(ONE_HEAD, TWO_HEADS))
    assert first.tolist() == [[1.0, 0.0], [0.25, 0.75]]
    assert second.tolist() == [[0.8125, 0.1875], [0.4375, 0.5625]]


def test_max_and_min_over_heads_are_normalised_again():
    """The largest of both heads is 1 everywhere: plus I [[2, 1], [1, 2]] / 3; the smallest is 0: the identity."""
    assert torch.allclose(rollout(traced(TWO_HEADS), heads="max")[0], torch.tensor([[2.0, 1.0], [1.0, 2.0]]) / 3)
    assert rollout(traced(TWO_HEADS), heads="min")[0].tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_the_smallest_weights_are_discarded():
    """Of [[.9, .1], [.4, .6]] a half goes: .1 and .4. Left [[1.9, 0], [0, 1.6]], of which rows sum to 1: I."""
    trace = traced([[[0.9, 0.1], [0.4, 0.6]]])
    assert rollout(trace, discard=0.5)[0].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert torch.allclose(rollout(trace, discard=0.25)[0], torch.tensor([[1.0, 0.0], [0.2, 0.8]]))


@pytest.mark.parametrize(("name", "kind"), [("gpt2", "decoder"), ("bert-base", "encoder")])
def test_a_real_model_rolls_out_as_numpy_says(name, kind):
    model = create(name, vocab=11, context=8, width=12, layers=3, heads=3, init_std=0.5, seed=0, device="cpu")
    trace = record(model, torch.tensor([[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]]), sites="*.weights")
    expected = np.eye(5)
    for layer, mine in enumerate(rollout(trace, item=1)):
        weights = trace[f"{kind}.blocks.{layer}.attention.weights"][1].double().numpy()
        expected = (0.5 * weights.mean(0) + 0.5 * np.eye(5)) @ expected
        assert np.allclose(mine.numpy(), expected, atol=1e-6)
        assert torch.allclose(mine.sum(-1), torch.ones(5), atol=1e-6)


def test_an_encoder_decoder_rolls_out_either_side_but_not_across():
    model = create("transformer-tiny", vocab=20, width=12, layers=2, heads=2, seed=0, device="cpu")
    trace = record(model, (torch.tensor([[1, 2, 3, 4]]), torch.tensor([[1, 2]])), sites="*.weights")
    assert rollout(trace, "encoder").shape == (2, 4, 4)
    assert rollout(trace, "decoder").shape == (2, 2, 2)
    with pytest.raises(ClearheadError, match="cross-attention mixes two sequences"):
        rollout(trace, "cross")


def test_a_vits_rollout_lies_over_its_patches():
    model = create("vit-ti16", image=(8, 12), patch=4, channels=1, width=12, heads=3, layers=2, seed=0, device="cpu")
    layers = rollout(record(model, torch.rand(1, 1, 8, 12), sites="*.weights"))
    over = patch_maps(layers, model.config)
    assert over.shape == (2, 2, 3)
    assert torch.allclose(over.sum((1, 2)) + layers[:, 0, 0], torch.ones(2), atol=1e-6)


def test_bad_requests_are_refused_in_one_line():
    lacking = traced(ONE_HEAD, ONE_HEAD)
    del lacking.values["encoder.blocks.0.attention.weights"]
    cases = [
        (lambda: rollout(lacking), "lacks the weights of layer 0"),
        (lambda: rollout(traced(ONE_HEAD), heads="median"), "joined by mean, max, min, not by 'median'"),
        (lambda: rollout(traced(ONE_HEAD), discard=1.0), "at least 0 and below 1, not 1.0"),
        (lambda: rollout(traced([[[0.5, 0.5]]])), "1 rows and 2 columns"),
        (lambda: rollout(traced(ONE_HEAD), item=1), "there is no number 1"),
    ]
    for call, message in cases:
        with pytest.raises(ClearheadError, match=message):
            call()
