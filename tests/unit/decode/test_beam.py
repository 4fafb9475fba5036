"""Beam search against ten lines of brute force, against every sentence there is, and its tree against the model."""

import itertools
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clearhead.decode import Beams, Limits, Search, beam_search, collect, generate
from clearhead.errors import ClearheadError
from tests.unit.decode.tiny import FAMILIES, TableModel, build, prompts

Scored = list[tuple[float, tuple[int, ...]]]

tables = st.builds(TableModel, seed=st.integers(0, 10**6), vocab=st.integers(2, 5))
penalties = st.sampled_from([0.0, 0.6, 1.0, 2.0, -1.0])
stops = st.sampled_from([True, False, "never"])
ends = st.sampled_from([frozenset({0}), frozenset({1}), frozenset({0, 1}), frozenset()])
quick = settings(max_examples=60, deadline=None, derandomize=True)


def brute_force(model: TableModel, prompt: list[int], beams: Beams, end: frozenset[int]) -> tuple[Scored, list[Scored]]:
    """The answers, and the continuations considered at each step: every token of every beam, sorted."""
    k, penalty, longest = beams.count, beams.length_penalty, beams.length
    under_way, answers, considered = [(0.0, ())], [], []
    for n in range(1, longest + 1):
        grown = [(s + p, (*t, w)) for s, t in under_way for w, p in enumerate(model.logprobs([*prompt, *t]))]
        considered.append(sorted(grown, reverse=True)[: max(2, 1 + len(end)) * k])
        over = [t[-1] in end or n == longest for _, t in considered[-1]]
        ended = [(s / n**penalty, t) for (s, t), done in zip(considered[-1][:k], over[:k], strict=True) if done]
        answers = sorted(answers + ended, reverse=True)[:k]
        under_way = [beam for beam, done in zip(considered[-1], over, strict=True) if not done][:k]
        hoped = longest if beams.early_stopping == "never" and penalty > 0 else n
        hopeless = under_way and len(answers) == k and under_way[0][0] / hoped**penalty <= answers[-1][0]
        if not under_way or hopeless or (beams.early_stopping is True and len(answers) == k):
            break
    return answers, considered


def assert_answers(search: Search, expected: Scored) -> None:
    assert [hypothesis.tokens for hypothesis in search.finished] == [tokens for _, tokens in expected]
    for hypothesis, (score, _) in zip(search.finished, expected, strict=True):
        assert math.isclose(hypothesis.score, score, rel_tol=1e-5, abs_tol=1e-5)


@given(model=tables, count=st.integers(1, 12), penalty=penalties, stop=stops, length=st.integers(1, 9), end=ends)
@example(model=TableModel(0, 4), count=2, penalty=2.0, stop="never", length=9, end=frozenset({0}))
@example(model=TableModel(1, 4), count=2, penalty=2.0, stop="never", length=9, end=frozenset({0}))
@settings(quick, max_examples=120)
def test_for_every_k_the_result_is_that_of_brute_force(model, count, penalty, stop, length, end):
    """Three prompts of different lengths at once; the model is a table, so nothing is rounded differently."""
    beams = Beams(count, penalty, stop, length)
    given_prompts = [[1], [0, 1, 1], [1, 0]]
    for search, prompt in zip(beam_search(model, given_prompts, beams, end=end), given_prompts, strict=True):
        assert_answers(search, brute_force(model, prompt, beams, end)[0])
        assert search.tree == []


@given(model=tables, penalty=penalties, length=st.integers(1, 6), end=ends)
@quick
def test_a_beam_of_one_is_greedy(model, penalty, length, end):
    inputs = [[1], [0, 1]]
    written = collect(2, generate(model, inputs, Limits(length=length, end=end)))
    searches = beam_search(model, inputs, Beams(1, penalty, True, length), end=end)
    for row, search in zip(written, searches, strict=True):
        (only,) = search.finished
        assert list(only.tokens) == row.tokens
        assert math.isclose(only.logprob, sum(row.logprobs), rel_tol=1e-5, abs_tol=1e-5)


@given(
    seed=st.integers(0, 10**6),
    vocab=st.integers(2, 3),
    length=st.integers(1, 4),
    penalty=penalties,
    stop=st.sampled_from([False, "never"]),
    end=st.sampled_from([frozenset({0}), frozenset({1}), frozenset()]),
)
@quick
def test_with_beams_for_every_sentence_it_is_exhaustive_enumeration(seed, vocab, length, penalty, stop, end):
    model, count = TableModel(seed, vocab), vocab**length
    sentences = []
    for size in range(1, length + 1):
        for tokens in itertools.product(range(vocab), repeat=size):
            closed = tokens[-1] in end or size == length
            if closed and end.isdisjoint(tokens[:-1]):
                logprob = sum(model.logprobs([1, *tokens[:at]])[token] for at, token in enumerate(tokens))
                sentences.append((logprob / size**penalty, tokens))
    (search,) = beam_search(model, [[1]], Beams(count, penalty, stop, length), end=end)
    assert_answers(search, sorted(sentences, reverse=True))


def path(search: Search, node: int) -> tuple[int, ...]:
    """The tokens from the root to this node."""
    at, tokens = search.tree[node], []
    tokens.append(at.token)
    while at.parent is not None:
        parent = search.tree[at.parent]
        assert parent.step == at.step - 1
        at = parent
        tokens.append(at.token)
    assert at.step == 1
    return tuple(reversed(tokens))


@given(model=tables, count=st.integers(1, 5), penalty=penalties, stop=stops, length=st.integers(1, 6), end=ends)
@quick
def test_the_tree_holds_every_hypothesis_with_its_true_score_and_fate(model, count, penalty, stop, length, end):
    beams, prompt = Beams(count, penalty, stop, length), [1, 1]
    (search,) = beam_search(model, [prompt], beams, end=end, tree=True)
    answers, considered = brute_force(model, prompt, beams, end)
    paths = [path(search, node) for node in range(len(search.tree))]
    for number, step in enumerate(considered, 1):
        assert [paths[i] for i, node in enumerate(search.tree) if node.step == number] == [t for _, t in step]
    for node, tokens in zip(search.tree, paths, strict=True):
        logprob = sum(model.logprobs([*prompt, *tokens[:at]])[token] for at, token in enumerate(tokens))
        assert math.isclose(node.logprob, logprob, rel_tol=1e-5, abs_tol=1e-5)
        assert math.isclose(node.score, node.logprob / node.step**penalty, rel_tol=1e-9)
    assert_fates(search, paths, len(considered))
    assert [paths[hypothesis.node] for hypothesis in search.finished] == [tokens for _, tokens in answers]
    assert [search.tree[hypothesis.node].score for hypothesis in search.finished] == [h.score for h in search.finished]


def assert_fates(search: Search, paths: list[tuple[int, ...]], last: int) -> None:
    """What became of each: told from the tree alone."""
    k, end, length = search.beams.count, search.end, search.beams.length
    parents = {node.parent for node in search.tree}
    answers = {hypothesis.node for hypothesis in search.finished}
    for step in range(1, last + 1):
        nodes = [at for at, node in enumerate(search.tree) if node.step == step]
        over = [at for at in nodes if paths[at][-1] in end or step == length]
        going = [at for at in nodes if at not in over]
        for place, at in enumerate(nodes):
            fate = search.tree[at].fate
            if at in over:
                expected = "late" if place >= k else "finished" if at in answers else "beaten"
            else:
                expected = "pruned" if at not in going[:k] else "open" if step == last else "followed"
            assert fate == expected
            assert at not in parents or fate == "followed"
        followed = [at for at in nodes if search.tree[at].fate == "followed"]
        assert step == last or any(at in parents for at in followed)


@given(model=tables, count=st.integers(1, 6), stop=stops)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_a_prompt_is_searched_as_if_it_were_alone(model, count, stop):
    beams, inputs = Beams(count, 1.0, stop, 5), [[1], [0, 0, 1], [1, 1], [0]]
    together = beam_search(model, inputs, beams, end=frozenset({0}), tree=True)
    for search, prompt in zip(together, inputs, strict=True):
        (alone,) = beam_search(model, [prompt], beams, end=frozenset({0}), tree=True)
        assert alone == search


@pytest.mark.parametrize("name", FAMILIES)
def test_a_beam_of_one_is_greedy_in_every_family(name: str):
    model, inputs, end = build(name), prompts(7, 6), frozenset({4, 5})
    written = collect(6, generate(model, inputs, Limits(length=8, end=end)))
    searches = beam_search(model, inputs, Beams(1, 1.0, True, 8), end=end)
    assert [search.finished[0].tokens for search in searches] == [tuple(row.tokens) for row in written]


BAD = [
    ({"count": 0}, "the number of beams must be a whole number of at least 1, not 0"),
    ({"count": 2.0}, "the number of beams must be a whole number of at least 1, not 2.0"),
    ({"length": -1}, "a length must be a whole number of at least 1, not -1"),
    ({"length_penalty": math.nan}, "length_penalty must be a number, not nan"),
    ({"length_penalty": "long"}, "length_penalty must be a number, not 'long'"),
    ({"length_penalty": 1e6}, "a length_penalty of 1000000.0 is too much for 64 tokens"),
    ({"length_penalty": -400}, "a length_penalty of -400 is too much for 64 tokens"),
    ({"early_stopping": "always"}, "early_stopping must be true, false or 'never', not 'always'"),
    ({"early_stopping": 1}, "early_stopping must be true, false or 'never', not 1"),
    ({"early_stopping": None}, "early_stopping must be true, false or 'never', not None"),
]


@pytest.mark.parametrize(("fields", "message"), BAD, ids=[str(fields) for fields, _ in BAD])
def test_a_bad_value_is_refused_in_one_line(fields: dict, message: str):
    with pytest.raises(ClearheadError) as refusal:
        Beams(**fields)
    assert str(refusal.value) == message


@pytest.mark.parametrize("name", ["gpt, learned", "transformer, post"])
def test_sentences_that_could_outgrow_the_context_are_refused_before_the_search(name: str):
    model = build(name, context=10)
    prompt = 4 if name.startswith("gpt") else 1
    most = 10 - prompt + 1
    message = f"^{prompt} tokens and {most + 1} more don't fit the context of 10: ask for at most {most}$"
    with pytest.raises(ClearheadError, match=message):
        beam_search(model, [[1, 2, 3, 4]], Beams(2, length=most + 1))
    assert len(beam_search(model, [[1, 2, 3, 4]], Beams(2, length=most))[0].finished[0].tokens) == most


def test_a_prompt_beyond_the_context_is_refused_in_one_line():
    with pytest.raises(ClearheadError, match="^a prompt of 11 tokens doesn't fit the context of 10: shorten it$"):
        beam_search(build("gpt, learned", context=10), [[1] * 11], Beams(2, length=1))


@pytest.mark.parametrize("inputs", [[], [[1, 2], []]], ids=["no row", "an empty row"])
def test_nothing_to_start_from_is_refused_in_one_line(inputs: list):
    with pytest.raises(ClearheadError, match="^there is nothing to start from: a prompt has no token$"):
        beam_search(TableModel(0, 3), inputs)
