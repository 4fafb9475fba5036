"""Attention in the lecture's numbers: the look-ahead table, filters times values, heads side by side."""

import pytest
import torch

from clearhead.layers import Heads, SelfAttention
from clearhead.ops import PATHS, attention, cosine, masks, one_hot, similarity
from clearhead.trace import Recorder
from tests.support import equal

LOOK_AHEAD_SCORES = torch.tensor(
    [[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.3, 0.6, 0.1], [0.1, 0.3, 0.3, 0.3]]
)
LOOK_AHEAD_WEIGHTS = torch.tensor(
    [[1, 0, 0, 0], [0.3775, 0.6225, 0, 0], [0.2584, 0.3156, 0.4260, 0], [0.2144, 0.2619, 0.2619, 0.2619]]
)


def recorded(layer: torch.nn.Module, x: torch.Tensor):
    with Recorder(layer.eval()) as trace:
        layer(x)
    return trace


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("options", [{"causal": True}, {"mask": masks.causal(4)}], ids=["causal", "mask"])
def test_the_look_ahead_table_comes_out(path, options):
    """Keys and values that are unit vectors make the scores the queries themselves, and the output the weights."""
    unit = torch.eye(4)[None, None]
    weights = attention(LOOK_AHEAD_SCORES[None, None], unit, unit, scale=1.0, path=path, **options)[0, 0]
    assert (weights - LOOK_AHEAD_WEIGHTS).abs().max() <= 1e-4
    assert torch.equal(weights.triu(1), torch.zeros(4, 4))


def test_a_seven_by_seven_filter_times_seven_by_three_values_gives_seven_by_three():
    trace = recorded(SelfAttention(5, Heads.of(5, 1, key=2, value=3)), torch.randn(1, 7, 5))
    weights, values = trace["weights"][0, 0], trace["value"][0, 0]
    assert weights.shape == (7, 7)
    assert values.shape == (7, 3)
    assert equal(trace["output"][0, 0], weights @ values)


def test_three_heads_of_three_are_seven_by_nine_side_by_side_and_a_linear_layer_gives_seven_by_five():
    layer = SelfAttention(5, Heads.of(5, 3, key=3, value=3))
    trace = recorded(layer, torch.randn(1, 7, 5))
    assert trace["output"].shape == (1, 3, 7, 3)
    assert trace["concat"].shape == (1, 7, 9)
    assert torch.equal(trace["concat"][0], torch.cat(list(trace["output"][0]), dim=-1))
    assert trace["projected"].shape == (1, 7, 5)
    assert equal(trace["projected"], trace["concat"] @ layer.out.weight.T + layer.out.bias)


def test_nine_tokens_of_512_in_eight_heads_of_64():
    trace = recorded(SelfAttention(512, Heads.of(512, 8)), torch.randn(1, 9, 512))
    shapes = {site: tuple(value.shape[1:]) for site, value in trace.items()}
    heads, filters = (8, 9, 64), (8, 9, 9)
    assert shapes == {
        **dict.fromkeys(("query", "key", "value"), heads),
        **dict.fromkeys(("scores", "scaled", "weights"), filters),
        "output": heads,
        "concat": (9, 512),
        "projected": (9, 512),
    }
    assert equal(trace["scaled"], trace["scores"] / 8)


def test_scaled_scores_are_the_similarity_of_queries_and_keys():
    trace = recorded(SelfAttention(10, Heads.of(10, 1, key=2)), torch.randn(1, 5, 10))
    assert equal(trace["scaled"], similarity(trace["query"], trace["key"], scale=2**0.5))


def test_a_times_b_transposed_over_the_scale():
    a, b = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0]]), torch.tensor([[1.0, 1.0, 1.0], [2.0, 0.0, 1.0]])
    assert similarity(a, b, scale=4.0).tolist() == [[0.75, 1.0], [1.0, 0.25]]


def test_one_hot_times_a_matrix_is_its_row():
    """The deck's six words; `intelligence` is number 5 (one slide draws its one in place 1)."""
    weights = torch.arange(6 * 4.0).view(6, 4)
    row = one_hot(torch.tensor([5]), 6)
    assert row.tolist() == [[0, 0, 0, 0, 0, 1]]
    assert (row @ weights).tolist() == [weights[5].tolist()]


def test_cosine_is_the_dot_product_over_both_lengths():
    a, b = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[4.0, 5.0, 6.0], [-1.0, -2.0, -3.0]])
    assert equal(cosine(a, b), torch.tensor([[32 / (14 * 77) ** 0.5, -1.0]]))
