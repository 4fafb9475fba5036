"""The positional encoding of "This is Computer Vision Class": n = 5, d = 10, d_k = 2, on the model `deck`."""

import pytest
import torch

from clearhead.models import create
from clearhead.ops import one_hot, positions
from clearhead.trace import Recorder
from tests.support import equal

SENTENCE = ["This", "is", "Computer", "Vision", "Class"]
ROW_1 = torch.tensor([0.8415, 0.5403, 0.1578, 0.9875, 0.0251, 0.9997])


@pytest.fixture(scope="module")
def model():
    return create("deck", device="cpu", seed=0)


@pytest.fixture(scope="module")
def trace(model):
    with Recorder(model) as trace:
        model(torch.arange(len(SENTENCE))[None])
    return trace


def test_row_one_of_the_sinusoids_of_width_ten():
    assert (positions.sinusoidal(5, 10)[1, :6] - ROW_1).abs().max() <= 5e-5
    assert positions.sinusoidal(5, 10)[0].tolist() == [0.0, 1.0] * 5


def test_the_deck_adds_them_to_its_five_words(trace):
    assert trace["input.positions"].shape == (5, 10)
    assert (trace["input.positions"][1, :6] - ROW_1).abs().max() <= 5e-5
    assert equal(trace["input.summed"], trace["input.embedded"] + trace["input.positions"])


def test_the_decks_embedding_is_one_hot_times_its_matrix(model, trace):
    rows = one_hot(trace["input.ids"], model.config.vocab) @ model.input.tokens.weight
    assert torch.equal(trace["input.embedded"], rows.detach())


def test_the_decks_head_is_two_wide_and_looks_at_five_words(trace):
    at = "decoder.blocks.0.attention"
    assert {trace[f"{at}.{name}"].shape for name in ("query", "key", "value", "output")} == {(1, 1, 5, 2)}
    assert equal(trace[f"{at}.scaled"], trace[f"{at}.scores"] / 2**0.5)
    assert torch.equal(trace[f"{at}.weights"].triu(1), torch.zeros(1, 1, 5, 5))
    assert trace[f"{at}.projected"].shape == (1, 5, 10)
