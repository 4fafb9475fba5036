"""Compiled beam searches, whose books and rows stay on the device, find what the plain model's search finds."""

import gc
import itertools
import weakref

import pytest
import torch

from clearhead.decode import Beams, Limits, Search, beam_search, collect, generate
from clearhead.decode.captured import Captured
from clearhead.models.base import Model
from tests.unit.decode.tiny import build, prompts

MODELS = ["gpt, learned", "gpt, banded rotary, grouped", "transformer, post", "t5"]
ROWS = prompts(3, 5)
ENDS, NEVER = frozenset({4, 5}), frozenset({1})
Decoders = tuple[Model, Captured]


def both(name: str, backend: str = "eager", **options) -> Decoders:
    """A model, and the same with compiled steps; the quicker backend does where only the course of things matters."""
    model = build(name, **options)
    return model, Captured(model, bucket=8, backend=backend)


def assert_same(ours: list[Search], theirs: list[Search], tolerance: float = 2e-5) -> None:
    for search, plain in zip(ours, theirs, strict=True):
        assert [found.tokens for found in search.finished] == [found.tokens for found in plain.finished]
        assert [found.node for found in search.finished] == [-1] * len(plain.finished)
        for name in ("score", "logprob"):
            numbers = [[getattr(found, name) for found in each.finished] for each in (search, plain)]
            assert numbers[0] == pytest.approx(numbers[1], abs=tolerance, rel=tolerance)


def compared(decoders: Decoders, rows: list[list[int]], beams: Beams, **options) -> None:
    plain, captured = (beam_search(decoder, rows, beams, **options) for decoder in decoders)
    assert_same(captured, plain)


@pytest.mark.parametrize("name", MODELS)
def test_every_rule_gives_the_sentences_and_scores_of_the_plain_search(name: str):
    """Ragged prompts, two end tokens and one that is never written; all of these rules run in one compiled step."""
    decoders = both(name, "aot_eager")
    for stop, penalty in itertools.product((True, False, "never"), (1.0, 0.0, -1.0)):
        compared(decoders, ROWS, Beams(3, penalty, stop, 9), end=ENDS, never=NEVER)
        compared(decoders, ROWS[:2], Beams(3, penalty, stop, 9), end=frozenset({4, 7}))  # fewer, in the same memory
    (pool,) = decoders[1]._beam_pools.values()
    assert pool.searches == len(ROWS)


@pytest.mark.parametrize("name", ["gpt, learned", "t5"])
def test_more_beams_than_the_vocabulary_has_words(name: str):
    compared(both(name), ROWS, Beams(13, 1.0, False, 5), never=NEVER)


def test_one_beam_and_one_token():
    decoders = both("transformer, post")
    compared(decoders, ROWS, Beams(1, 1.0, False, 6), end=ENDS)
    compared(decoders, ROWS, Beams(3, 1.0, False, 1), end=ENDS, never=NEVER)


@pytest.mark.parametrize("name", ["gpt, learned", "transformer, post"])
def test_more_searches_get_a_larger_pool_and_the_smaller_one_is_gone(name: str):
    (model, captured), beams = both(name), Beams(2, 1.0, False, 6)
    compared((model, captured), [[3, 4, 5]] * 2, beams, end=ENDS)
    (before,) = (weakref.ref(pool) for pool in captured._beam_pools.values())
    compared((model, captured), [[3, 4, 5], [6, 7, 8], [9, 2, 0]], beams, end=ENDS)
    (pool,) = captured._beam_pools.values()
    assert pool.searches == 3
    assert before() is None  # at once: nobody has to look for it


@pytest.mark.parametrize("name", ["transformer, post", "t5"])
def test_answers_that_begin_as_they_are_told_to(name: str):
    compared(both(name), ROWS, Beams(3, 1.0, False, 7), end=ENDS, prefix=[2, 6, 3])


def test_the_context_can_be_filled_to_its_last_token():
    compared(both("gpt, learned", context=12), [[1, 2, 3, 4], [5]], Beams(3, 1.0, False, 9))


def test_the_next_searches_run_in_the_memory_of_the_last_ones_beside_a_text_that_is_written():
    (model, captured), beams = both("gpt, learned"), Beams(3, 1.0, False, 6)
    plain, pooled = (each.start(torch.tensor([[1, 2, 3], [5, 6, 7]]), room=8) for each in (model, captured))
    memory = set()
    for step in range(3):
        compared((model, captured), [[1 + step, 2, 3], [4, 5, 6 + step]], beams, end=ENDS)
        (pool,) = captured._beam_pools.values()
        memory.add(pool.cache.keys[0].data_ptr())
        token = torch.tensor([step, 9 - step])
        assert torch.allclose(captured.step(token, pooled), model.step(token, plain), atol=1e-4)
    assert len(memory) == 1


def test_no_slot_is_held_that_no_token_needs():
    captured = Captured(build("transformer, post"), backend="eager")  # buckets of 96 slots
    beam_search(captured, ROWS, Beams(3, 1.0, False, 15))
    (pool,) = captured._beam_pools.values()
    assert (pool.cache.size, len(pool.cache.keys[0])) == (16, 3 * len(ROWS))


@pytest.mark.parametrize("name", ["gpt, learned", "transformer, post"])
def test_rehearsals_before_a_capture_leave_everything_as_it_was(name: str, monkeypatch: pytest.MonkeyPatch):
    """On a GPU each graph is rehearsed before it is captured, in the middle of a search or of a text."""
    rehearsed = []

    def captured_here(step, rehearsal, scratch):
        for _ in range(3):
            rehearsal()
        rehearsed.append(scratch)
        return step

    monkeypatch.setattr("clearhead.decode.graphs._captured", captured_here)
    model, captured = both(name)
    captured._scratch = "the same for all"
    compared((model, captured), ROWS, Beams(3, 1.0, False, 14), end=ENDS, never=NEVER)
    plain, pooled = (collect(5, generate(each, ROWS, Limits(14))) for each in (model, captured))
    assert [row.tokens for row in plain] == [row.tokens for row in pooled]
    assert rehearsed == ["the same for all"] * 4  # two numbers of slots each


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", MODELS)
def test_graphs_on_a_gpu_find_what_the_plain_search_finds(name: str):
    """Lengths of several buckets, so that graphs are captured in the middle of a search."""
    model = build(name).to("cuda")
    captured = Captured(model, bucket=8)
    for stop in (False, True, "never"):  # the second and third time by the graphs of the first
        for rows in (ROWS, ROWS[:2]):
            beams = Beams(3, 1.0, stop, 14)
            plain, pooled = (beam_search(decoder, rows, beams, end=ENDS, never=NEVER) for decoder in (model, captured))
            assert_same(pooled, plain, tolerance=1e-3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_a_second_search_needs_no_second_cache():
    model = build("transformer, post", context=512).to("cuda")
    captured, beams, rows = Captured(model, bucket=96), Beams(8, 1.0, False, 400), [[1, 2, 3]] * 64
    beam_search(captured, rows, beams)
    gc.collect()
    (pool,) = captured._beam_pools.values()
    cache = sum(store.nbytes for store in (*pool.cache.keys, *pool.cache.values))
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    beam_search(captured, rows, beams)
    assert torch.cuda.max_memory_allocated() - before < cache / 2
