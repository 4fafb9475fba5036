"""Decoding with a cache gives what the whole pass gives: at every step, for every kind of position, band and norm."""

import pytest
import torch

from clearhead.errors import ClearheadError
from clearhead.models.gpt import GPT, GPTConfig
from clearhead.trace import Recorder
from tests.support import equal

VARIANTS = {
    "learned": {},
    "sinusoidal": {"positions": "sinusoidal"},
    "rotary": {"positions": "rotary"},
    "banded": {"band": 3},
    "banded rotary": {"band": 3, "positions": "rotary"},
    "grouped, wide values": {"kv_heads": 1, "value_width": 5},
    "post-norm": {"norm": "post", "final_norm": False},
}
PROMPTS = [[5, 1, 7, 3, 2, 9], [4, 4], [8, 0, 6, 1]]
NEXT = torch.tensor([[3, 1, 4, 1], [2, 7, 1, 8], [9, 9, 0, 5]])


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS)
def model(request) -> GPT:
    small = {"vocab": 10, "context": 12, "width": 12, "layers": 2, "heads": 3}
    made = GPT(GPTConfig(**small, **request.param)).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.4)
    return made


def alone(model: GPT, row: int, steps: int) -> torch.Tensor:
    """The logits of one row's last token, from the whole prefix, without a cache or a neighbour."""
    return model(torch.tensor([PROMPTS[row] + NEXT[row, :steps].tolist()]))[0, -1]


def prompted(model: GPT, rows: list[int], size: int | None = None):
    """A cache that holds the ragged prompts of these rows, and the logits behind each prompt's last token."""
    lengths = torch.tensor([len(PROMPTS[row]) for row in rows])
    ids = torch.zeros(len(rows), int(lengths.max()), dtype=torch.long)
    for at, row in enumerate(rows):
        ids[at, : len(PROMPTS[row])] = torch.tensor(PROMPTS[row])
    cache = model.new_cache(len(rows), size)
    logits = model(ids, lengths=lengths, cache=cache)
    return cache, logits[torch.arange(len(rows)), lengths - 1]


@torch.no_grad()
def test_one_token_at_a_time_equals_the_whole_pass(model):
    ids = torch.randint(10, (2, 12))
    whole, cache = model(ids), model.new_cache(2, size=3)
    for step in range(12):
        assert equal(model(ids[:, step : step + 1], cache=cache)[:, 0], whole[:, step])


@torch.no_grad()
def test_ragged_prompts_decode_as_if_each_were_alone(model):
    cache, last = prompted(model, [0, 1, 2])
    for steps in range(5):
        assert all(equal(last[row], alone(model, row, steps)) for row in range(3))
        if steps < 4:
            last = model(NEXT[:, steps : steps + 1], cache=cache)[:, 0]


@torch.no_grad()
def test_several_tokens_at_once_behind_a_ragged_past_equal_the_whole_pass(model):
    cache, _ = prompted(model, [0, 1, 2])
    last = model(NEXT, cache=cache)[:, -1]
    assert all(equal(last[row], alone(model, row, 4)) for row in range(3))


@torch.no_grad()
def test_rows_that_arrive_and_leave_do_not_disturb_the_others(model):
    cache, _ = prompted(model, [0])
    model(NEXT[:1, :1], cache=cache)
    arriving, _ = prompted(model, [2, 1], size=4)
    cache = cache.join(arriving)
    last = model(torch.stack([NEXT[0, 1], NEXT[2, 0], NEXT[1, 0]])[:, None], cache=cache)[:, 0]
    assert equal(last, torch.stack([alone(model, 0, 2), alone(model, 2, 1), alone(model, 1, 1)]))
    cache = cache.select(torch.tensor([2, 1]))
    last = model(torch.stack([NEXT[1, 1], NEXT[2, 1]])[:, None], cache=cache)[:, 0]
    assert equal(last, torch.stack([alone(model, 1, 2), alone(model, 2, 2)]))


@torch.no_grad()
def test_a_recorded_step_equals_the_unrecorded_one(model):
    logits = []
    for record in (True, False):
        cache, _ = prompted(model, [0, 1])
        if record:
            with Recorder(model, "decoder.blocks.1.attention.weights"):
                logits.append(model(NEXT[:2, :1], cache=cache))
        else:
            logits.append(model(NEXT[:2, :1], cache=cache))
    assert equal(*logits)


@torch.no_grad()
def test_padding_at_the_right_changes_nothing_for_the_true_tokens(model):
    ids = torch.tensor([[*PROMPTS[1], 0, 0], PROMPTS[2]])
    padded = model(ids, lengths=torch.tensor([2, 4]))
    assert equal(padded[0, :2], model(ids[:1, :2])[0])
    assert equal(padded[1], model(ids[1:])[0])


@torch.no_grad()
def test_a_text_that_outgrows_the_context_is_refused_in_one_line():
    model = GPT(GPTConfig(vocab=10, context=4, width=12, layers=1, heads=3))
    with pytest.raises(ClearheadError, match="^5 tokens don't fit the model's context of 4: shorten the text$"):
        model(torch.zeros(1, 5, dtype=torch.long))
    cache = model.new_cache(1)
    model(torch.zeros(1, 4, dtype=torch.long), cache=cache)
    with pytest.raises(ClearheadError, match="context of 4"):
        model(torch.zeros(1, 1, dtype=torch.long), cache=cache)


def small(context: int) -> GPT:
    model = GPT(GPTConfig(vocab=10, context=context, width=12, layers=1, heads=3)).eval()
    model.initialise(torch.Generator().manual_seed(0))
    return model


@torch.no_grad()
def test_a_padded_prompt_leaves_the_whole_context_to_its_true_tokens():
    model = small(context=6)
    cache = model.new_cache(1)
    model(torch.tensor([[1, 2, 0, 0, 0, 0]]), lengths=torch.tensor([2]), cache=cache)
    logits = model(torch.tensor([[3]]), cache=cache)
    assert equal(logits[0, -1], model(torch.tensor([[1, 2, 3]]))[0, -1])


@torch.no_grad()
def test_short_requests_can_come_and_go_for_longer_than_the_context():
    model = small(context=6)
    cache = model.new_cache(1)
    model(torch.tensor([[1, 2]]), cache=cache)
    for _ in range(8):  # each request lives for two steps, and overlaps the one before and the one behind
        arriving = model.new_cache(1)
        model(torch.tensor([[1, 2]]), cache=arriving)
        cache = cache.join(arriving)
        logits = model(torch.tensor([[3], [3]]), cache=cache)
        assert equal(logits[1, -1], model(torch.tensor([[1, 2, 3]]))[0, -1])
        cache = cache.select(torch.tensor([1]))


@torch.no_grad()
def test_decoding_under_autocast_equals_the_whole_pass_under_it():
    model, ids = small(context=6), torch.tensor([[1, 2, 3, 4]])
    cache = model.new_cache(1)
    with torch.autocast("cpu", torch.bfloat16):
        whole = model(ids)
        steps = [model(ids[:, step : step + 1], cache=cache) for step in range(4)]
    assert equal(torch.cat(steps, 1), whole, tolerance=2e-2)
