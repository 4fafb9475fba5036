"""Beam searches whose books are tensors find what those find whose books are Python's, to the last digit."""

import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clearhead.decode import Allowed, Beams, beam_search
from clearhead.decode.beam_books import Books
from clearhead.decode.beams_ahead import STEPS
from clearhead.decode.protocol import FollowsBeams, Look
from tests.unit.decode.tiny import TableModel, TableState

INPUTS = [[1], [0, 1, 1], [1, 0], [0]]


class FollowedTable:
    """The searches of a table model: its rows move, and are fed, as the books say."""

    def __init__(self, model: TableModel, state: TableState, books: Books, length: int) -> None:
        self.model, self.books, self.length, self.count, self.steps = model, books, length, len(state), 0
        self.state = state.select([row for row in range(len(state)) for _ in range(books.sums.shape[1])])

    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            self.state.reorder(self.books.rows.tolist())
            self.books.take(self.model.step(self.books.tokens, self.state))
        self.steps += steps

    def look(self) -> Look:
        return Look(self.books.going)

    def finished(self):
        return self.books.finished(self.count, self.length)


class Following(TableModel):
    """A table that follows beams by itself; `last` is what it followed."""

    last: FollowedTable

    def follow(self, state: TableState, beams: Beams, end: frozenset[int], never: frozenset[int]) -> FollowedTable:
        shape = len(state), beams.count, beams.length, beams.candidates(len(end)), self.vocab
        books = Books.blank(*shape, torch.device("cpu"))
        books.rules.set(beams, end, never)
        books.begin(len(state))
        books.take(state.logits)
        self.last = FollowedTable(self, state, books, beams.length)
        return self.last


@given(
    seed=st.integers(0, 10**6),
    vocab=st.integers(2, 5),
    count=st.integers(1, 12),
    penalty=st.sampled_from([0.0, 0.6, 1, 2.0, -1]),
    stop=st.sampled_from([True, False, "never"]),
    length=st.integers(1, 11),
    end=st.sampled_from([frozenset({0}), frozenset({1}), frozenset({0, 1}), frozenset()]),
    never=st.sampled_from([frozenset(), frozenset({1}), frozenset({0})]),
)
@example(seed=0, vocab=4, count=2, penalty=2.0, stop="never", length=9, end=frozenset({0}), never=frozenset())
@example(seed=0, vocab=2, count=3, penalty=1, stop=False, length=5, end=frozenset(), never=frozenset({0, 1}))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_the_answers_are_those_of_the_search_in_python(seed, vocab, count, penalty, stop, length, end, never):
    """Tiny vocabularies, so that beams run out; prompts of different lengths, whose searches end at different steps."""
    beams = Beams(count, penalty, stop, length)
    plain, ahead = (
        beam_search(kind(seed, vocab), INPUTS, beams, end=end, never=never) for kind in (TableModel, Following)
    )
    assert [search.finished for search in ahead] == [search.finished for search in plain]
    assert all(search.done and not search.tree for search in ahead)


def test_the_end_of_all_searches_is_noticed_a_few_steps_late():
    beams, end = Beams(2, 1.0, True, 200), frozenset({0, 1})
    model = Following(3, 3)
    longest = max(
        len(found.tokens) for search in beam_search(model, INPUTS, beams, end=end) for found in search.finished
    )
    assert longest < 20
    assert model.last.steps < 20 + 2 * STEPS


def test_a_score_beyond_what_a_float_holds_is_still_a_sentences():
    beams, never = Beams(2, -168.0, False, 64), frozenset({0})
    (plain,), (ahead,) = (
        beam_search(kind(1, 3, spread=1e6), [[1]], beams, never=never) for kind in (TableModel, Following)
    )
    assert [found.score for found in plain.finished] == [-math.inf] * 2
    assert [found.tokens for found in ahead.finished] == [found.tokens for found in plain.finished]


@pytest.mark.parametrize(
    "options", [{"tree": True}, {"allowed": Allowed([[1, 2], [2, 1, 0]])}], ids=["tree", "allowed"]
)
def test_whoever_wants_the_tree_or_says_what_may_follow_gets_it_step_by_step(options, monkeypatch):
    model, plain = Following(5, 3), TableModel(5, 3)
    assert isinstance(model, FollowsBeams) and not isinstance(plain, FollowsBeams)
    monkeypatch.setattr(model, "follow", lambda *_: pytest.fail("the books on the device know no tree and no set"))
    beams = Beams(2, 1.0, False, 4)
    searches = [beam_search(each, INPUTS, beams, end=frozenset({0}), **options) for each in (model, plain)]
    assert [search.finished for search in searches[0]] == [search.finished for search in searches[1]]
    assert [search.tree for search in searches[0]] == [search.tree for search in searches[1]]
