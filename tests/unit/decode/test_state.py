"""Decoding with a state gives what the whole pass gives: at every step, whatever rows leave, arrive or share."""

import random
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clearhead.decode.protocol import padded
from clearhead.layers import State
from clearhead.models.base import Model
from tests.support import equal
from tests.unit.decode.tiny import FAMILIES, GPTS, VOCAB, build, prompts, whole

SHAPES = {"free shapes": None, "static shapes": 4}
Row = tuple[list[int], list[int]]  # what was given, what was written


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest) -> Model:
    return build(request.param)


def begun(model: Model, given: list[list[int]], bucket: int | None = None, room: int | None = 8) -> State:
    return model.start(*padded(given, model.device), room=room, bucket=bucket)


def answers(model: Model, rows: list[Row]) -> Tensor:
    return torch.stack([whole(model, *row) for row in rows])


def advance(model: Model, state: State, rows: list[Row], roll: random.Random) -> None:
    """One more token for every row, in the state and in our own book."""
    tokens = [roll.randrange(VOCAB) for _ in rows]
    logits = model.step(torch.tensor(tokens), state)
    assert logits is state.logits
    for (_, written), token in zip(rows, tokens, strict=True):
        written.append(token)


@torch.no_grad()
@pytest.mark.parametrize("bucket", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("batch", [1, 8])
def test_cached_logits_equal_uncached_ones_at_every_step(model: Model, batch: int, bucket: int | None):
    rows: list[Row] = [(given, []) for given in prompts(batch, batch)]
    state, roll = begun(model, [given for given, _ in rows], bucket), random.Random(5)
    for _ in range(9):
        assert equal(state.logits, answers(model, rows))
        advance(model, state, rows, roll)
    assert equal(state.logits, answers(model, rows))


def wander(model: Model, seed: int, buckets: tuple[int | None, ...]) -> None:
    """Steps, selections (beams, too: rows in runs) and arrivals in an order drawn from the seed; every row is checked.

    Some of the selections are made in place. Only models that stay inside their context are asked: no row gets more
    than 12 tokens behind a prompt of 9.
    """
    roll = random.Random(seed)
    rows: list[Row] = [(given, []) for given in prompts(seed, roll.randint(1, 4))]
    state = begun(model, [given for given, _ in rows], roll.choice(buckets))
    for _ in range(10):
        act = roll.choice(["step", "step", "choose", "beams", "join", "reorder"])
        if act == "step" and max(len(written) for _, written in rows) < 12:
            advance(model, state, rows, roll)
        elif act == "reorder":
            chosen = [roll.randrange(len(rows)) for _ in rows]
            state.reorder(chosen)
            rows = [(rows[at][0], [*rows[at][1]]) for at in chosen]
        elif act == "join" and len(rows) <= 6:
            new: list[Row] = [(given, []) for given in prompts(roll.randrange(99), roll.randint(1, 3))]
            other = begun(model, [given for given, _ in new], roll.choice(buckets), room=roll.choice([None, 3, 30]))
            for _ in range(roll.randint(0, 3)):
                advance(model, other, new, roll)
            if roll.random() < 0.5:
                times = roll.randint(1, 3)
                chosen = [place for place in range(len(new)) for _ in range(times)]
                other, new = other.select(chosen), [(new[at][0], [*new[at][1]]) for at in chosen]
            state, rows = state.join(other), rows + new
        else:
            chosen = [roll.randrange(len(rows)) for _ in range(roll.randint(1, min(6, len(rows) + 1)))]
            if act == "beams":
                chosen = [place for place in dict.fromkeys(chosen) for _ in range(roll.randint(1, 3))]
            state, rows = state.select(chosen), [(rows[at][0], [*rows[at][1]]) for at in chosen]
        assert len(state) == len(rows)
        assert equal(state.logits, answers(model, rows))
    advance(model, state, rows, roll)
    assert equal(state.logits, answers(model, rows))


@torch.no_grad()
@given(seed=st.integers(0, 2**32))
@settings(max_examples=4, deadline=None, derandomize=True)
def test_rows_selected_and_joined_at_any_step_change_no_row(model: Model, seed: int):
    wander(model, seed, (None,))


@torch.no_grad()
@given(seed=st.integers(0, 2**32))
@settings(max_examples=4, deadline=None, derandomize=True)
def test_rows_selected_and_joined_at_any_step_change_no_row_in_static_shapes(model: Model, seed: int):
    wander(model, seed, (4,))


@torch.no_grad()
@given(seed=st.integers(0, 2**32))
@settings(max_examples=3, deadline=None, derandomize=True)
def test_static_and_free_states_can_be_joined(model: Model, seed: int):
    wander(model, seed, (None, 4, 6))


@pytest.fixture
def uninitialised_memory_is_nan() -> Iterator[None]:
    """Whatever is allocated and not written holds NaN, which every product with it shows."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@torch.no_grad()
@pytest.mark.parametrize("buckets", [(None,), (4,), (None, 4, 6)], ids=["free", "static", "mixed"])
def test_what_memory_happened_to_hold_never_reaches_a_row(model: Model, buckets, uninitialised_memory_is_nan: None):
    for seed in range(2):
        wander(model, seed, buckets)


@torch.no_grad()
@pytest.mark.parametrize("name", GPTS)
def test_ragged_texts_behind_one_shared_beginning_see_nothing_but_it_and_themselves(
    name: str, uninitialised_memory_is_nan: None
):
    model = build(name)
    cache = begun(model, [[1, 2, 3, 4]], room=20).cache.select(torch.tensor([0, 0, 0]))
    texts = [[5], [6, 7, 8], [9, 10]]
    ids, lengths = padded(texts, model.device)
    assert lengths is not None
    model.hidden(ids, lengths, cache)
    rows: list[Row] = [([1, 2, 3, 4, *text], []) for text in texts]
    state = State(cache, answers(model, rows))
    for _ in range(3):
        advance(model, state, rows, random.Random(1))
        assert equal(state.logits, answers(model, rows))


@torch.no_grad()
def test_slots_that_no_row_has_reached_may_hold_anything_while_rows_are_even(model: Model):
    roll = random.Random(1)
    rows: list[Row] = [([roll.randrange(VOCAB) for _ in range(5)], []) for _ in range(3)]
    state = begun(model, [given for given, _ in rows], room=7)
    for chosen in ([2, 0, 1], [0, 2, 2], [1, 0], [0, 1]):
        for store in (*state.cache.keys, *state.cache.values):
            store[:, state.cache.used :] = torch.nan
        state, rows = state.select(chosen), [(rows[at][0], [*rows[at][1]]) for at in chosen]
        advance(model, state, rows, roll)
        assert equal(state.logits, answers(model, rows))
    for store in (*state.cache.keys, *state.cache.values):
        store[:, state.cache.used :] = torch.nan
    new: list[Row] = [([3] * 9, [])]
    state, rows = state.join(begun(model, [[3] * 9])), rows + new
    advance(model, state, rows, roll)
    assert equal(state.logits, answers(model, rows))


@torch.no_grad()
@pytest.mark.parametrize("bucket", SHAPES.values(), ids=SHAPES)
def test_what_other_tokens_left_behind_a_rows_end_is_not_seen(model: Model, bucket: int | None):
    rows: list[Row] = [([1, 2, 3, 4, 5, 6], []), ([7, 8], [])]
    state = begun(model, [given for given, _ in rows], bucket)
    for _ in range(3):
        for store in (*state.cache.keys, *state.cache.values):
            for row, length in enumerate(state.cache.lengths.tolist()):
                store[row, length:] = 50.0
        advance(model, state, rows, random.Random(2))
        assert equal(state.logits, answers(model, rows))


@torch.no_grad()
def test_when_all_rows_have_left_new_ones_can_arrive(model: Model):
    state = begun(model, prompts(1, 3))
    for _ in range(5):
        model.step(torch.zeros(len(state), dtype=torch.long), state)
    state = state.select([])
    assert len(state) == 0
    rows: list[Row] = [([3, 1], []), ([4, 1, 5], [])]
    state = state.join(begun(model, [given for given, _ in rows]))
    assert state.cache.used == max(state.cache.lengths.tolist())
    advance(model, state, rows, random.Random(0))
    assert equal(state.logits, answers(model, rows))


ENCODER_DECODERS = [name for name in FAMILIES if not name.startswith("gpt")]


@torch.no_grad()
@pytest.mark.parametrize("name", ENCODER_DECODERS)
def test_beams_share_their_source_instead_of_copying_it(name: str):
    model = build(name)
    state = begun(model, prompts(4, 3))
    source = state.encoded
    assert source is not None
    for chosen in ([0, 0, 1, 1, 2, 2], [1, 1, 3, 2, 4, 4]):
        state = state.select(chosen)
        assert state.encoded is not None
        assert state.encoded.beams == 2
        for (key, value), (first_key, first_value) in zip(state.encoded.memory, source.memory, strict=True):
            assert key is first_key
            assert value is first_value


@torch.no_grad()
@pytest.mark.parametrize("name", ENCODER_DECODERS)
@pytest.mark.parametrize("bucket", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(("ours", "theirs"), [(2, 2), (3, 1), (1, 2), (1, 1)])
def test_states_of_other_source_lengths_and_other_beams_join(name: str, bucket: int | None, ours: int, theirs: int):
    model, roll, rows, parts = build(name), random.Random(4), [], []
    for times, sources in ((ours, [[1, 2, 3, 4, 5], [6, 7]]), (theirs, [[8], [9, 1, 2]])):
        mine: list[Row] = [(source, []) for source in sources for _ in range(times)]
        state = begun(model, sources, bucket).select([row for row in range(2) for _ in range(times)])
        for _ in range(times):
            advance(model, state, mine, roll)
        rows, parts = rows + mine, [*parts, state]
    both = parts[0].join(parts[1])
    assert both.encoded is not None
    assert both.encoded.beams == (ours if ours == theirs else 1)
    for _ in range(3):
        advance(model, both, rows, roll)
        assert equal(both.logits, answers(model, rows))


@torch.no_grad()
@pytest.mark.parametrize("name", ENCODER_DECODERS)
@pytest.mark.parametrize("bucket", SHAPES.values(), ids=SHAPES)
def test_a_longer_beginning_of_the_target_is_read_as_if_it_had_been_written(name: str, bucket: int | None):
    model, sources = build(name), prompts(6, 3)
    begins = [[2, 5, 7], [2, 1, 1], [2, 0, 3]]
    ids, lengths = padded(sources, model.device)
    state = model.start(ids, lengths, prefix=torch.tensor(begins), bucket=bucket)
    for row, source in enumerate(sources):
        expected = model(torch.tensor([source]), torch.tensor([begins[row]]))[0, -1]
        assert equal(state.logits[row], expected)


class Counted:
    """A backend that computes as eager does, and says how often it was asked to compile."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Tensor]):
        from torch._dynamo.backends.debugging import aot_eager

        self.graphs += 1
        return aot_eager(graph, inputs)


@torch.no_grad()
@pytest.mark.parametrize("name", ["gpt, learned", "gpt, banded rotary, grouped", "transformer, post", "t5"])
def test_a_step_compiles_whole_and_once_a_bucket(name: str):
    model, backend = build(name), Counted()
    torch._dynamo.reset()
    compiled = torch.compile(model.next_logits, fullgraph=True, backend=backend, dynamic=False)
    given = prompts(8, 3, longest=2)
    rows: list[Row] = [(row, []) for row in given]
    state, roll = begun(model, given, bucket=8, room=16), random.Random(3)
    graphs = []
    while state.cache.used < 14:
        token = torch.tensor([roll.randrange(VOCAB) for _ in rows])
        state.cache.begin(1)
        state.logits = compiled(token, state)
        state.cache.advance(1)
        for (_, written), number in zip(rows, token.tolist(), strict=True):
            written.append(number)
        graphs.append((state.cache.seen, backend.graphs))
        assert equal(state.logits, answers(model, rows))
    assert {seen for seen, _ in graphs} == {8, 16}
    assert {count for seen, count in graphs if seen == 8} == {1}
    assert {count for seen, count in graphs if seen == 16} == {2}
    torch._dynamo.reset()
