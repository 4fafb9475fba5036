"""Masks are True where a query may look."""

import pytest
import torch

from clearhead.ops import masks


def grid(rows: str) -> torch.Tensor:
    return torch.tensor([[mark == "x" for mark in row] for row in rows.split()])


def test_the_look_ahead_mask_is_a_lower_triangle():
    assert torch.equal(masks.causal(4), grid("x... xx.. xxx. xxxx"))


def test_padding_hides_the_keys_behind_a_rows_length_from_all_heads_and_queries():
    mask = masks.padding(torch.tensor([3, 0, 5]), 5)
    assert mask.shape == (3, 1, 1, 5)
    assert torch.equal(mask[:, 0, 0], grid("xxx.. ..... xxxxx"))


@pytest.mark.parametrize(
    ("queries", "keys", "causal", "window", "expected"),
    [
        (4, 4, False, None, "xxxx xxxx xxxx xxxx"),
        (4, 4, False, 2, "xx.. xxx. .xxx ..xx"),
        (4, 4, True, 2, "x... xx.. .xx. ..xx"),
        (4, 4, True, 1, "x... .x.. ..x. ...x"),
        (2, 4, True, None, "xxx. xxxx"),
        (2, 5, True, 3, ".xxx. ..xxx"),
        (2, 5, False, 2, "..xxx ...xx"),
        (3, 2, True, None, ".. x. xx"),
    ],
)
def test_a_band_counts_from_the_last_query_standing_at_the_last_key(queries, keys, causal, window, expected):
    assert torch.equal(masks.band(queries, keys, causal, window), grid(expected))
