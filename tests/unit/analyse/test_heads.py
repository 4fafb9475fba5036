"""Scores of heads against sums by hand."""

import math

import pytest
import torch

from clearhead.analyse import SCORES, AttentionMap, best_head, head_scores
from clearhead.errors import ClearheadError


def of(weights: torch.Tensor, tokens: str, layer: int = 0) -> AttentionMap:
    names = tuple(tokens.split())
    return AttentionMap(f"encoder.blocks.{layer}.attention.weights", layer, weights, names, names)


def looking(*columns: int) -> torch.Tensor:
    """A head whose row i looks at columns[i] alone."""
    return torch.eye(len(columns))[list(columns)]


PREVIOUS, NEXT, SELF, FIRST = looking(0, 0, 1, 2), looking(1, 2, 3, 3), looking(0, 1, 2, 3), looking(0, 0, 0, 0)


def test_pure_heads_score_one_for_what_they_do():
    scores = head_scores(of(torch.stack([PREVIOUS, NEXT, SELF, FIRST]), "a b c d"))
    assert scores["previous"].tolist() == pytest.approx([1, 0, 0, 1 / 3])  # d's first token is not the one before it
    assert scores["next"].tolist() == [0, 1, 0, 0]
    assert scores["self"].tolist() == [1 / 4, 1 / 4, 1, 1 / 4]
    assert scores["first"].tolist() == pytest.approx([1 / 3, 0, 0, 1])
    assert scores["entropy"].tolist() == [0, 0, 0, 0]


def test_repeated_tokens_are_found_again_and_so_is_what_followed_them():
    """a b a b: each token occurs elsewhere; behind the earlier a stands b (1), behind the earlier b stands a (2)."""
    same, induction = looking(2, 3, 0, 1), looking(0, 0, 1, 2)
    scores = head_scores(of(torch.stack([same, induction]), "a b a b"))
    assert scores["same"].tolist() == [1, 0]
    assert scores["induction"].tolist() == [0, 1]


def test_a_share_of_the_weight_is_a_share_of_the_score():
    rows = torch.tensor([[1.0, 0, 0], [0.25, 0.75, 0], [0.2, 0.3, 0.5]])
    scores = head_scores(of(rows[None], "x y x"))
    assert scores["previous"].item() == pytest.approx((0.25 + 0.3) / 2)
    assert scores["self"].item() == pytest.approx((1 + 0.75 + 0.5) / 3)
    assert scores["same"].item() == pytest.approx((0 + 0.2) / 2)
    assert scores["induction"].item() == pytest.approx(0.3)
    by_hand = sum(-p * math.log(p) for p in (0.25, 0.75, 0.2, 0.3, 0.5)) / 3
    assert scores["entropy"].item() == pytest.approx(by_hand)


def test_what_can_not_be_said_of_any_token_is_left_out():
    scores = head_scores(of(torch.full((1, 2, 2), 0.5), "a b"))
    assert scores.keys() == SCORES.keys() - {"same", "induction"}
    assert head_scores(of(torch.ones(1, 1, 1), "a")).keys() == {"self", "entropy"}
    assert "induction" not in head_scores(of(torch.full((1, 2, 2), 0.5), "a a"))  # what followed it is itself


def test_the_best_head_of_all_layers_is_named():
    even = torch.full((4, 4), 0.25)
    nearly = 0.9 * NEXT + 0.1 * even
    maps = [of(torch.stack([even, PREVIOUS]), "a b c d"), of(torch.stack([nearly, even]), "a b c d", 1)]
    found = best_head(maps, "next")
    assert (found.layer, found.head, found.site) == (1, 0, "encoder.blocks.1.attention.weights")
    assert found.score == pytest.approx(0.925)
    sharpest = best_head(maps, "entropy")
    assert (sharpest.layer, sharpest.head, sharpest.score) == (0, 1, 0.0)


def test_bad_requests_are_refused_in_one_line():
    one = of(torch.full((1, 2, 2), 0.5), "a b")
    with pytest.raises(ClearheadError, match="there is no score 'nxt'; did you mean 'next'"):
        best_head([one], "nxt")
    with pytest.raises(ClearheadError, match="no token of this input has a score 'same'"):
        best_head([one], "same")
    cross = AttentionMap("decoder.blocks.0.cross.weights", 0, torch.ones(1, 1, 2), ("x",), ("a", "b"))
    with pytest.raises(ClearheadError, match="heads are scored within one text"):
        head_scores(cross)
