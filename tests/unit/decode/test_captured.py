"""Compiled steps in pooled memory give what plain steps give: rows leave, states take turns, beams move."""

import pytest
import torch

import clearhead
from clearhead.decode import Beams, Limits, Sampling, beam_search, collect, generate
from clearhead.decode.captured import Captured, first_best

SMALL = {"vocab": 60, "layers": 2, "width": 32, "heads": 2}
MODELS = {
    "gpt2": {**SMALL, "context": 64},
    "t5-small": {**SMALL, "ff": 48, "head_width": 8},
    "transformer-tiny": {**SMALL, "ff": 48, "start_token": 1},
}
ROWS = [[5, 6, 7, 8, 9], [4, 3], [11, 12, 13], [20]]


def both(name: str, backend: str = "eager"):
    """A model, and the same with compiled steps; the quicker backend does where only the course of things matters."""
    model = clearhead.create(name, device="cpu", seed=0, **MODELS[name])
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.0 if weight.dim() > 1 else 1.0)
    return model, Captured(model, bucket=8, backend=backend)


@pytest.mark.parametrize("name", MODELS)
def test_rows_that_leave_at_different_times_get_the_same_tokens(name):
    model, captured = both(name)
    limits = Limits(20, stopped=lambda row, tokens: len(tokens) >= 3 + 4 * row)
    plain, pooled = (collect(4, generate(decoder, ROWS, limits)) for decoder in (model, captured))
    assert [row.tokens for row in plain] == [row.tokens for row in pooled]
    assert [len(row.tokens) for row in plain] == [3, 7, 11, 15]
    assert len(captured._pools) == 1


@pytest.mark.parametrize("name", MODELS)
def test_beams_whose_tree_is_wanted_go_step_by_step_and_find_the_same_sentences(name):
    """Those of test_captured_beams.py go by themselves."""
    model, captured = both(name)
    searches = [beam_search(decoder, ROWS, Beams(3, length=12), tree=True) for decoder in (model, captured)]
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


@pytest.mark.parametrize("name", MODELS)
def test_written_ahead_are_the_tokens_and_probabilities_of_one_step_after_the_other(name, monkeypatch):
    """Bursts of four, so that rows end inside of them, at their ends, and while the next one is under way."""
    monkeypatch.setattr("clearhead.decode.ahead.BURST", 4)
    model, captured = both(name, "aot_eager")
    favourite = collect(4, generate(model, ROWS, Limits(20)))[1].tokens[0]
    ends_at = (6, 9, 15, 99)
    limits = Limits(20, never=frozenset({favourite}), stopped=lambda row, tokens: len(tokens) >= ends_at[row])
    plain, pooled = (collect(4, generate(decoder, ROWS, limits)) for decoder in (model, captured))
    assert [(row.tokens, row.reason) for row in plain] == [(row.tokens, row.reason) for row in pooled]
    assert [(len(row.tokens), row.reason) for row in pooled] == [(6, "stop"), (9, "stop"), (15, "stop"), (20, "length")]
    assert favourite not in [token for row in pooled for token in row.tokens]
    for ours, theirs in zip(pooled, plain, strict=True):
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


def test_a_burst_stops_where_the_context_of_the_longest_row_does():
    model, captured = both("gpt2")
    rows = [list(range(1, 50)), [4, 3], list(range(1, 31))]
    plain, pooled = (collect(3, generate(decoder, rows, Limits(60))) for decoder in (model, captured))
    assert [row.tokens for row in plain] == [row.tokens for row in pooled]
    assert [len(row.tokens) for row in pooled] == [64 - 49 + 1, 60, 64 - 30 + 1]


def test_a_burst_leaves_the_state_as_its_steps_would_have_left_it():
    model, captured = both("gpt2")
    given, token = torch.tensor([[1, 2], [5, 6]]), torch.tensor([3, 4])
    plain, pooled = model.start(given, room=40), captured.start(given, room=40)
    burst = captured.ahead(token, pooled, 6)
    tokens, logprobs = burst.read()
    for written, logprob in zip(tokens, logprobs, strict=True):
        expected = model.step(token, plain).log_softmax(-1)
        assert written == expected.argmax(-1).tolist()
        assert logprob == pytest.approx(expected.amax(-1).tolist(), abs=1e-4)
        token = torch.tensor(written)
    assert torch.allclose(pooled.logits, plain.logits, atol=1e-4)
    assert pooled.cache.used == plain.cache.used and torch.equal(pooled.cache.lengths, plain.cache.lengths)
    assert torch.allclose(captured.step(token, pooled), model.step(token, plain), atol=1e-4)


@torch.inference_mode()
def test_a_burst_is_as_long_as_the_room_and_the_next_one_makes_more():
    model, captured = both("gpt2")
    given = torch.tensor([[1, 2, 3]])
    plain, pooled = model.start(given), captured.start(given, room=8)
    burst = captured.ahead(torch.tensor([7]), pooled, 30)
    assert len(burst) == 5 and pooled.cache.used == pooled.cache.size == 8
    for token in [7, *burst.read()[0][:-1]]:
        model.step(torch.tensor([token]).flatten(), plain)
    assert torch.allclose(captured.step(burst.last, pooled), model.step(burst.last, plain), atol=1e-4)


def test_the_next_prompt_is_read_into_the_memory_that_the_last_one_left():
    model, captured = both("gpt2")
    first = captured.start(torch.tensor([[1, 2], [5, 6]]), room=30)
    captured.step(torch.tensor([3, 4]), first)
    memory = first.cache.keys[0].data_ptr()
    beside = captured.start(torch.tensor([[9, 9]]), room=30)
    assert beside.cache.keys[0].data_ptr() != memory  # somebody lives there
    del first, beside
    second = captured.start(torch.tensor([[7, 8]]), room=30)
    assert second.cache.keys[0].data_ptr() == memory
    plain = model.start(torch.tensor([[7, 8]]))
    assert torch.allclose(captured.step(torch.tensor([2]), second), model.step(torch.tensor([2]), plain), atol=1e-5)


def test_whoever_asks_for_more_than_the_best_token_gets_it_step_by_step(monkeypatch):
    model, captured = both("gpt2")
    monkeypatch.setattr(captured, "ahead", lambda *_: pytest.fail("a burst knows no first choices and draws nothing"))
    for options in ({"best": 2}, {"sampling": Sampling(temperature=1.0)}, {"sampling": Sampling(repetition_penalty=2)}):
        plain, pooled = (collect(4, generate(decoder, ROWS, Limits(6), **options)) for decoder in (model, captured))
        assert [row.tokens for row in plain] == [row.tokens for row in pooled]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("rows", [ROWS, ROWS[:1]], ids=["four rows", "one row"])
@pytest.mark.parametrize("name", MODELS)
def test_graphs_on_a_gpu_write_what_plain_steps_write(name, rows):
    model = both(name)[0].to("cuda")
    captured, limits = Captured(model, bucket=8), Limits(20, stopped=lambda row, tokens: len(tokens) >= 6 + 4 * row)
    for _ in range(2):  # the second time in the memory, and by the graphs, of the first
        plain, pooled = (collect(len(rows), generate(decoder, rows, limits)) for decoder in (model, captured))
        assert [row.tokens for row in plain] == [row.tokens for row in pooled]
        for ours, theirs in zip(pooled, plain, strict=True):
            assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-3)
    beams = [beam_search(decoder, rows, Beams(3, length=12)) for decoder in (model, captured)]
    plain, pooled = ([[h.tokens for h in search.finished] for search in found] for found in beams)
    assert plain == pooled


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("rows", [1, 4])
@torch.inference_mode()
def test_in_bf16_on_a_gpu_what_is_written_is_the_best_of_plain_steps_up_to_near_ties(rows):
    model = clearhead.create("gpt2", device="cuda", dtype=torch.bfloat16, seed=0, layers=3)
    prompt = torch.randint(50257, (rows, 90), device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    captured = Captured(model)
    state, plain = captured.start(prompt, room=150), model.start(prompt, room=150)
    tokens = plain.logits.argmax(-1)
    for chosen in torch.tensor(captured.ahead(tokens, state, 40).read()[0], device="cuda"):
        scores = model.step(tokens, plain).float()
        assert (scores.amax(-1) - scores.gather(-1, chosen[:, None])[:, 0] < 0.1).all()
        tokens = chosen


def test_the_first_of_the_largest_is_taken_and_what_is_no_number_stays_inside():
    scores = torch.randn(50, 300).round() + 0.0  # with many that are equally large; no zero is negative
    scores[:20] -= 9
    scores[3] = -torch.inf
    scores[4, 17] = torch.inf
    assert torch.equal(first_best(scores), scores.argmax(-1))
    fine = torch.randn(50, 300) * 1e-30
    assert torch.equal(first_best(fine), fine.argmax(-1))
    assert 0 <= first_best(torch.full((1, 7), torch.nan)).item() < 7
