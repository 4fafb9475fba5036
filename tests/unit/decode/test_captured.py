"""Compiled steps in pooled memory give what plain steps give: rows leave, states take turns, beams move."""

import pytest
import torch

import clearhead
from clearhead.decode import Beams, Limits, beam_search, collect, generate
from clearhead.decode.captured import Captured

SMALL = {"vocab": 60, "layers": 2, "width": 32, "heads": 2}
MODELS = {
    "gpt2": {**SMALL, "context": 64},
    "t5-small": {**SMALL, "ff": 48, "head_width": 8},
    "transformer-tiny": {**SMALL, "ff": 48, "start_token": 1},
}
ROWS = [[5, 6, 7, 8, 9], [4, 3], [11, 12, 13], [20]]


def both(name: str):
    model = clearhead.create(name, device="cpu", seed=0, **MODELS[name])
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.0 if weight.dim() > 1 else 1.0)
    return model, Captured(model, bucket=8, backend="aot_eager")


@pytest.mark.parametrize("name", MODELS)
def test_rows_that_leave_at_different_times_get_the_same_tokens(name):
    model, captured = both(name)
    limits = Limits(20, stopped=lambda row, tokens: len(tokens) >= 3 + 4 * row)
    plain, pooled = (collect(4, generate(decoder, ROWS, limits)) for decoder in (model, captured))
    assert [row.tokens for row in plain] == [row.tokens for row in pooled]
    assert [len(row.tokens) for row in plain] == [3, 7, 11, 15]
    assert len(captured._pools) == 1


@pytest.mark.parametrize("name", MODELS)
def test_beams_find_the_same_sentences(name):
    model, captured = both(name)
    searches = [beam_search(decoder, ROWS, Beams(3, length=12)) for decoder in (model, captured)]
    plain, pooled = ([[h.tokens for h in search.finished] for search in found] for found in searches)
    assert plain == pooled


def test_two_states_that_take_turns_do_not_disturb_each_other():
    model, captured = both("gpt2")
    tokens = [torch.tensor([3, 4]), torch.tensor([9, 1])]
    plain = [model.start(torch.tensor([[1, 2], [5, 6]])), model.start(torch.tensor([[7, 8], [2, 2]]))]
    pooled = [captured.start(torch.tensor([[1, 2], [5, 6]])), captured.start(torch.tensor([[7, 8], [2, 2]]))]
    for _ in range(10):
        for which in range(2):
            expected = model.step(tokens[which], plain[which])
            assert torch.allclose(captured.step(tokens[which], pooled[which]), expected, atol=1e-5)


def test_a_larger_batch_gets_a_larger_pool_and_the_smaller_one_goes_on():
    model, captured = both("gpt2")
    small, plain = captured.start(torch.tensor([[1, 2]])), model.start(torch.tensor([[1, 2]]))
    captured.step(torch.tensor([3]), small)
    model.step(torch.tensor([3]), plain)
    large = captured.start(torch.tensor([[4, 5], [6, 7], [8, 9]]))
    captured.step(torch.tensor([1, 1, 1]), large)
    after = captured.step(torch.tensor([4]), small)
    assert torch.allclose(after, model.step(torch.tensor([4]), plain), atol=1e-5)
