"""A memory of earlier states, against sums that are written out by hand."""

import math

import pytest
import torch

from clearhead.train import remembered as module
from clearhead.train.remembered import Mixture, Scored, best_mixture, nats, remembered


def stream(length: int = 40, width: int = 6, vocab: int = 5) -> Scored:
    random = torch.Generator().manual_seed(3)
    logprobs = torch.randn(length, vocab, generator=random).log_softmax(-1)
    tokens = torch.randint(vocab, (length,), generator=random)
    return Scored(torch.randn(length, width, generator=random), tokens, logprobs[torch.arange(length), tokens])


def by_hand(known: Scored, token: int, place: int, size: int, sharpness: float) -> float:
    """The probability of any token at a place, one earlier state after the other."""
    before = range(max(0, place - size), place)
    weights = [math.exp(sharpness * float(known.hidden[place] @ known.hidden[i]) / math.sqrt(6)) for i in before]
    return sum(w for i, w in zip(before, weights, strict=True) if int(known.tokens[i]) == token) / sum(weights)


@pytest.mark.parametrize("at_once", [7, 512])
def test_a_token_is_as_likely_as_the_states_that_it_followed(monkeypatch, at_once):
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    known = stream()
    found = remembered(known, 10, 0.7).exp()
    assert found[0] == 0  # nothing was there yet
    for place in range(1, 40):
        assert float(found[place]) == pytest.approx(by_hand(known, int(known.tokens[place]), place, 10, 0.7), abs=1e-5)
        assert sum(by_hand(known, token, place, 10, 0.7) for token in range(5)) == pytest.approx(1)


def test_the_loss_is_that_of_a_mixture_and_the_first_token_is_the_models_alone():
    known = stream()
    memory = remembered(known, 10, 0.7)
    chances = [0.8 * math.exp(p) + 0.2 * math.exp(m) for p, m in zip(known.logprobs, memory, strict=True)]
    expected = -sum(map(math.log, chances[1:])) - float(known.logprobs[0])
    assert nats(known, memory, 0.2) == pytest.approx(expected, rel=1e-5)


def test_the_mixture_with_the_least_loss_is_taken(monkeypatch):
    monkeypatch.setattr(module, "SHARPNESS", (0.1, 3.0))
    monkeypatch.setattr(module, "SHARES", (0.1, 0.6))
    tried = {
        (sharpness, share): nats(stream(), remembered(stream(), 10, sharpness), share)
        for sharpness in (0.1, 3.0)
        for share in (0.1, 0.6)
    }
    assert best_mixture(stream(), 10) == Mixture(*min(tried, key=tried.__getitem__))
