"""A closed set of answers: only these are written, and the best of them is found."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.decode import Allowed, Beams, Limits, Sampling, beam_search, collect, generate
from clearhead.errors import ClearheadError
from tests.unit.decode.tiny import FAMILIES, TableModel, build, prompts

sets = st.sets(st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple), min_size=1, max_size=8)
END = frozenset({0})
quick = settings(max_examples=60, deadline=None, derandomize=True)


def text(tokens: list[int] | tuple[int, ...]) -> tuple[int, ...]:
    """Without the end token."""
    return tuple(tokens[:-1] if tokens[-1] in END else tokens)


def score_of(model: TableModel, prompt: list[int], tokens: tuple[int, ...]) -> float:
    return sum(model.logprobs([*prompt, *tokens[:at]])[token] for at, token in enumerate(tokens))


@given(seed=st.integers(0, 10**6), sequences=sets, data=st.data())
@quick
def test_what_is_written_is_always_one_of_the_sequences(seed, sequences, data):
    sampling = data.draw(
        st.sampled_from(
            [Sampling(), Sampling(temperature=1.5), Sampling(temperature=1.0, top_k=1, top_p=0.1, min_p=0.9)]
        )
    )
    model, allowed = TableModel(seed, 8), Allowed(sequences)
    steps = generate(model, [[1], [2, 3]], Limits(length=5, end=END), sampling, allowed=allowed)
    for row in collect(2, steps):
        assert text(row.tokens) in sequences
        assert row.reason == ("end" if row.tokens[-1] in END else "closed")


@given(seed=st.integers(0, 10**6), sequences=sets, count=st.integers(1, 6))
@quick
def test_what_a_beam_finds_is_always_among_the_sequences(seed, sequences, count):
    beams = Beams(count, length=5)
    for search in beam_search(TableModel(seed, 8), [[1], [2, 3]], beams, end=END, allowed=Allowed(sequences)):
        assert search.finished
        found = [text(hypothesis.tokens) for hypothesis in search.finished]
        assert set(found) <= sequences
        assert len(set(found)) == len(found)


@given(seed=st.integers(0, 10**6), sequences=sets)
@quick
def test_a_wide_beam_ranks_all_the_sequences(seed, sequences):
    """Where one sequence begins another, the shorter one pays for its end token: else it could not be told apart."""
    model, prompt = TableModel(seed, 8), [1]
    written = [
        (*sequence, 0) if any(other[: len(sequence)] == sequence != other for other in sequences) else sequence
        for sequence in sequences
    ]
    beams = Beams(16, length_penalty=0.0, early_stopping="never", length=5)
    (search,) = beam_search(model, [prompt], beams, end=END, allowed=Allowed(sequences))
    ranked = sorted(written, key=lambda tokens: -score_of(model, prompt, tokens))
    assert [hypothesis.tokens for hypothesis in search.finished] == ranked


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_chooses_among_the_sequences(name: str):
    model, inputs = build(name), prompts(9, 5)
    sequences = {(1, 2, 3), (1, 2, 5, 5), (6,), (7, 1)}
    allowed = Allowed(sequences)
    written = collect(5, generate(model, inputs, Limits(length=6), allowed=allowed))
    assert {tuple(row.tokens) for row in written} <= sequences
    searches = beam_search(model, inputs, Beams(4, length=6), allowed=allowed)
    assert all({hypothesis.tokens for hypothesis in search.finished} == sequences for search in searches)


def test_it_knows_what_may_follow():
    allowed = Allowed([[1, 2], [1, 3], [1], [4]])
    assert sorted(allowed.next([])) == [1, 4]
    assert sorted(allowed.next([1])) == [2, 3]
    assert sorted(allowed.next([1], END)) == [0, 2, 3]
    assert allowed.next([4], END) == []
    assert allowed.next([9]) == allowed.next([9, 1]) == []
    assert allowed.complete([1])
    assert not allowed.complete([])


WRONG = {
    "no continuation is allowed: give at least one": [],
    "an allowed continuation has no token": [[1], []],
}


@pytest.mark.parametrize(("message", "sequences"), WRONG.items(), ids=["none", "empty"])
def test_a_set_without_answers_is_refused_in_one_line(message: str, sequences: list):
    with pytest.raises(ClearheadError, match=f"^{message}$"):
        Allowed(sequences)


UNWRITABLE = {
    "an allowed continuation has 3 tokens, but 2 may be written": ([[1, 2, 3]], END, frozenset()),
    "an allowed continuation holds a token that is never written": ([[1, 5]], END, frozenset({5})),
    "an allowed continuation goes on behind an end token": ([[0, 5]], END, frozenset()),
    "an allowed continuation begins another: without an end token it is never written": (
        [[1], [1, 2]],
        frozenset(),
        frozenset(),
    ),
}


@pytest.mark.parametrize(("message", "case"), UNWRITABLE.items(), ids=["long", "never", "ended", "begun"])
def test_a_sequence_that_could_not_be_written_whole_is_refused_in_one_line(message: str, case: tuple):
    sequences, end, never = case
    model, allowed = TableModel(1, 8), Allowed(sequences)
    with pytest.raises(ClearheadError, match=f"^{message}$"):
        next(generate(model, [[1]], Limits(length=2, end=end, never=never), allowed=allowed))
    with pytest.raises(ClearheadError, match=f"^{message}$"):
        beam_search(model, [[1]], Beams(2, length=2), end=end, never=never, allowed=allowed)


def test_a_sequence_that_the_context_would_cut_is_refused_in_one_line():
    model = build("gpt, learned", context=7)
    with pytest.raises(ClearheadError, match="^an allowed continuation has 3 tokens, but 2 may be written$"):
        next(generate(model, [[1] * 6, [2]], allowed=Allowed([[1, 2, 3]])))
