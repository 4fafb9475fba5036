"""Generating step by step: why rows stop, what is told of every token, and the window past the context."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.decode import Limits, Piece, Sampling, check_decodes, collect, generate
from clearhead.decode.sampling import draw, generators
from clearhead.errors import ClearheadError
from clearhead.models.base import Family, Model
from clearhead.models.bert import FAMILY as BERT
from clearhead.models.vit import FAMILY as VIT
from tests.unit.decode.tiny import FAMILIES, TableModel, build, prompts, whole

END = frozenset({4, 5})


def by_hand(model: Model, given_row: list[int], limits: Limits, penalty: float = 1.0) -> list[int]:
    """Greedy, the whole pass for every token; a context that is full is the last tokens alone."""
    tokens: list[int] = []
    context = getattr(model.config, "context", 10**9)
    while len(tokens) < limits.length and (not tokens or tokens[-1] not in limits.end):
        seen = [*given_row, *tokens]
        if model.takes == ("text",):
            logits = whole(model, seen[-context:])
        else:
            logits, seen = whole(model, given_row, tokens), [model.start_token, *tokens]
        for token in set(seen):
            logits[token] = logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
        logits[sorted(limits.never)] = -math.inf
        tokens.append(int(logits.argmax()))
    return tokens


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("name", FAMILIES)
def test_greedy_takes_the_best_token_of_the_whole_pass_at_every_step(name: str, batch: int):
    model, rows = build(name), prompts(batch, batch)
    limits = Limits(length=10, end=END, never=frozenset({3}))
    written = collect(batch, generate(model, rows, limits))
    for row, result in zip(rows, written, strict=True):
        assert result.tokens == by_hand(model, row, limits)
        assert result.reason == ("end" if result.tokens[-1] in END else "length")
        assert 3 not in result.tokens


@pytest.mark.parametrize("name", ["gpt, learned", "transformer, post", "t5"])
def test_a_repetition_penalty_counts_what_stands_before_the_text(name: str):
    model, rows, limits = build(name), prompts(2, 5), Limits(length=8)
    written = collect(5, generate(model, rows, limits, Sampling(repetition_penalty=3.0)))
    expected = [by_hand(model, row, limits, penalty=3.0) for row in rows]
    assert [row.tokens for row in written] == expected
    assert expected != [by_hand(model, row, limits) for row in rows]


@given(seed=st.integers(0, 10**6), length=st.integers(1, 7))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_rows_leave_when_they_are_done_and_the_others_go_on(seed: int, length: int):
    model, rows = TableModel(seed, 5), [[1], [0, 1, 1], [1, 0], [2]]
    steps = list(generate(model, rows, Limits(length=length, end=frozenset({0}))))
    under_way = [0, 1, 2, 3]
    for pieces in steps:
        assert [piece.row for piece in pieces] == under_way
        under_way = [piece.row for piece in pieces if piece.reason is None]
    assert under_way == []
    for row, result in enumerate(collect(4, iter(steps))):
        tokens: list[int] = []
        for logprob in result.logprobs:
            scores = model.logprobs([*rows[row], *tokens])
            tokens.append(max(range(5), key=scores.__getitem__))
            assert math.isclose(logprob, scores[tokens[-1]], rel_tol=1e-5, abs_tol=1e-6)
        assert result.tokens == tokens
        assert result.reason == ("end" if tokens[-1] == 0 else "length")


def test_the_log_probabilities_told_are_the_models_own_before_any_filter():
    model, prompt = TableModel(3, 6), [1, 2]
    limits = Limits(length=1, never=frozenset({0}))
    sampling = Sampling(temperature=0.3, top_k=2, repetition_penalty=2.0)
    ((piece,),) = generate(model, [prompt], limits, sampling, best=3)
    own = model.logprobs(prompt)
    ranked = sorted(enumerate(own), key=lambda pair: -pair[1])[:3]
    assert math.isclose(piece.logprob, own[piece.token], rel_tol=1e-5)
    assert [token for token, _ in piece.best] == [token for token, _ in ranked]
    assert all(math.isclose(a, b, rel_tol=1e-5) for (_, a), (_, b) in zip(piece.best, ranked, strict=True))


def test_a_row_stops_where_the_caller_says_so_and_the_token_is_kept():
    model = TableModel(5, 5)
    asked: list[tuple[int, tuple[int, ...]]] = []

    def stopped(row: int, tokens: list[int]) -> bool:
        asked.append((row, tuple(tokens)))
        return row == 1 and len(tokens) == 2

    written = collect(2, generate(model, [[1], [2]], Limits(length=4, stopped=stopped)))
    assert [(len(row.tokens), row.reason) for row in written] == [(4, "length"), (2, "stop")]
    assert (1, tuple(written[1].tokens)) in asked


def test_an_interruption_loses_nothing_that_was_told():
    model = TableModel(5, 5)
    steps = generate(model, [[1], [2]], Limits(length=9))
    first = [next(steps), next(steps)]
    steps.close()
    whole_run = list(generate(model, [[1], [2]], Limits(length=9)))
    assert first == whole_run[:2]
    assert isinstance(first[0][0], Piece)


GPT_NAMES = [name for name in FAMILIES if name.startswith("gpt")]


@pytest.mark.parametrize("name", GPT_NAMES)
def test_a_window_equals_starting_again_from_the_last_tokens_at_every_step(name: str):
    """Rows that start inside the context, at its end and far beyond it; the long ones end before the short ones."""
    model = build(name, context=7)
    rows = [*prompts(5, 3, longest=15, shortest=8), *prompts(6, 2, longest=7, shortest=7), [1, 2], [3, 9, 0, 6, 6]]
    limits = Limits(length=12, end=END, window=True)
    written = collect(len(rows), generate(model, rows, limits))
    assert [row.tokens for row in written] == [by_hand(model, row, limits) for row in rows]


def test_a_window_keeps_each_rows_draws_apart():
    model, rows, sampling = build("gpt, learned", context=7), prompts(5, 4, longest=12), Sampling(temperature=1.0)
    written = collect(4, generate(model, rows, Limits(length=9, window=True), sampling, seeds=[7, 8, 9, 10]))
    for seed, row, result in zip([7, 8, 9, 10], rows, written, strict=True):
        random, tokens = generators([seed]), []
        for _ in range(9):
            logits = whole(model, [*row, *tokens][-7:])
            tokens += draw(sampling.scores(logits[None], [[]]), random)
        assert result.tokens == tokens


def test_a_prompt_beyond_the_context_is_refused_in_one_line():
    model = build("gpt, learned", context=7)
    message = "^a prompt of 8 tokens doesn't fit the context of 7: shorten it, or ask for a window$"
    with pytest.raises(ClearheadError, match=message):
        next(generate(model, [[1, 2], [1] * 8]))


def test_a_beginning_of_the_answer_beyond_the_context_is_refused_in_one_line():
    model = build("transformer, post", context=7)
    with pytest.raises(ClearheadError, match="^a prompt of 8 tokens doesn't fit the context of 7: shorten it$"):
        next(generate(model, [[1, 2]], Limits(window=True), prefix=[1] * 8))


@pytest.mark.parametrize("name", ["gpt, learned", "gpt, rotary", "transformer, post", "transformer, learned"])
def test_a_row_whose_context_is_full_ends_and_takes_nothing_from_the_others(name: str):
    model = build(name, context=7)
    rows = [[1] * 7, [2, 3], [4, 5, 6, 1]]
    written = collect(3, generate(model, rows, Limits(length=20)))
    sizes = [1, 6, 4] if name.startswith("gpt") else [7, 7, 7]
    assert [len(row.tokens) for row in written] == sizes
    assert {row.reason for row in written} == {"length"}
    for row, result, size in zip(rows, written, sizes, strict=True):
        assert result.tokens == by_hand(model, row, Limits(length=size))


def test_without_a_context_there_is_no_end_to_the_text():
    (row,) = collect(1, generate(build("t5"), [[1, 2]], Limits(length=150)))
    assert len(row.tokens) == 150


@pytest.mark.parametrize("name", ["transformer, post", "t5"])
def test_an_answer_can_be_begun_for_the_model(name: str):
    model = build(name)
    start = model.start_token
    assert start is not None
    written = collect(2, generate(model, [[1, 2, 3], [4]], Limits(length=4), prefix=[start, 7, 8]))
    for source, result in zip([[1, 2, 3], [4]], written, strict=True):
        tokens = [7, 8]
        for _ in range(4):
            tokens.append(int(whole(model, source, tokens).argmax()))
        assert result.tokens == tokens[2:]


@pytest.mark.parametrize("inputs", [[], [[1, 2], []]], ids=["no row", "an empty row"])
def test_nothing_to_start_from_is_refused_in_one_line(inputs: list):
    with pytest.raises(ClearheadError, match="^there is nothing to start from: a prompt has no token$"):
        next(generate(build("gpt, learned"), inputs))


def test_an_empty_beginning_of_the_answer_is_refused_in_one_line():
    with pytest.raises(ClearheadError, match="^there is nothing to start from: the answers' beginning has no token$"):
        next(generate(build("t5"), [[1]], prefix=[]))


@pytest.mark.parametrize("length", [0, -2, 1.5, True, None])
def test_a_bad_length_is_refused_in_one_line(length: object):
    with pytest.raises(ClearheadError, match=f"^a length must be a whole number of at least 1, not {length}$"):
        Limits(length=length)


@pytest.mark.parametrize("family", [BERT, VIT], ids=["bert", "vit"])
def test_a_family_that_does_not_write_is_refused_in_one_line(family: Family):
    with torch.device("meta"):
        model = family.model(family.shrunken)
    message = f"^{family.name} models don't write text: generating needs gpt, t5 or transformer$"
    with pytest.raises(ClearheadError, match=message):
        check_decodes(model)


@pytest.mark.parametrize("name", ["gpt, learned", "transformer, post", "t5"])
def test_the_families_that_write_are_known_to(name: str):
    check_decodes(build(name))
