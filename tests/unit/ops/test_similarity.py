"""One-hot rows, A B^T / scale, cosine and nearest rows, on numbers that can be checked by hand."""

import torch

from clearhead.ops import cosine, nearest, one_hot, similarity
from tests.support import equal

WORDS = torch.tensor([[3.0, 4.0], [6.0, 8.0], [4.0, -3.0], [-3.0, -4.0], [1.0, 0.0]])


def test_a_one_hot_row_has_a_single_one():
    assert one_hot(torch.tensor([5, 0]), 6).tolist() == [[0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0]]


def test_similarity_is_every_row_of_a_against_every_row_of_b_over_the_scale():
    a, b = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0], [0.0, 2.0]])
    assert similarity(a, b, 2.0).tolist() == [[8.5, 11.5, 2.0], [19.5, 26.5, 4.0]]


def test_cosine_ignores_length_and_follows_direction():
    assert equal(cosine(WORDS[:1], WORDS), torch.tensor([[1.0, 1.0, 0.0, -1.0, 0.6]]))


def test_a_zero_vector_is_like_nothing():
    assert torch.equal(cosine(torch.zeros(1, 2), WORDS), torch.zeros(1, 5))


def test_nearest_rows_come_best_first_and_never_more_than_there_are():
    values, rows = nearest(torch.tensor([1.0, 0.0]), WORDS, 3)
    assert rows.tolist()[:2] == [4, 2]
    assert equal(values, torch.tensor([1.0, 0.8, 0.6]))
    assert len(nearest(WORDS[0], WORDS, 50)[1]) == 5
