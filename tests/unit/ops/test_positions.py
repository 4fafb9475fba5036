"""Sinusoids, buckets and rotations against their formulas and against other people's code."""

import math

import pytest
import torch

from clearhead.ops import positions
from tests.support import equal, peer


def formula(length: int, width: int, base: float = 10000.0) -> torch.Tensor:
    table = torch.empty(length, width, dtype=torch.float64)
    for pos in range(length):
        for column in range(width):
            angle = pos / base ** (2 * (column // 2) / width)
            table[pos, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table


@pytest.mark.parametrize(("length", "width"), [(5, 10), (50, 7), (512, 12), (1, 2)])
def test_sinusoids_are_the_papers_formula(length, width):
    table = positions.sinusoidal(length, width)
    assert table.dtype == torch.float32
    assert equal(table, formula(length, width), tolerance=1e-7)


def test_sinusoids_may_start_later_and_have_another_base():
    assert torch.equal(positions.sinusoidal(3, 8, start=4), positions.sinusoidal(7, 8)[4:])
    assert equal(positions.sinusoidal(9, 8, base=100.0), formula(9, 8, base=100.0))


@pytest.mark.parametrize("width", [16, 10, 7])
def test_half_split_sinusoids_are_marians(width):
    marian = peer("transformers.models.marian.modeling_marian")
    theirs = marian.MarianSinusoidalPositionalEmbedding(20, width).create_weight()
    assert equal(positions.sinusoidal(20, width, half_split=True), theirs)


def test_two_dimensional_sinusoids_say_the_row_and_then_the_column():
    table = positions.sinusoidal_2d(3, 5, 8).view(3, 5, 8)
    assert equal(table[2, 4, :4], formula(3, 4)[2])
    assert equal(table[2, 4, 4:], formula(5, 4)[4])
    assert torch.equal(table[0, :, :4], table[0, :1, :4].expand(5, -1))
    assert len(table.flatten(0, 1).unique(dim=0)) == 15


def test_two_dimensional_sinusoids_refuse_a_width_that_four_does_not_divide():
    with pytest.raises(ValueError, match="width that 4 divides, not 10"):
        positions.sinusoidal_2d(3, 3, 10)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20)])
def test_relative_buckets_are_t5s_for_every_offset(bidirectional, buckets, max_distance):
    t5 = peer("transformers.models.t5.modeling_t5")
    offsets = torch.arange(-200, 201)
    theirs = t5.T5Attention._relative_position_bucket(offsets, bidirectional, buckets, max_distance)
    ours = positions.relative_buckets(offsets, buckets=buckets, max_distance=max_distance, bidirectional=bidirectional)
    assert torch.equal(ours, theirs)


def test_rotary_positions_are_llamas():
    llama = peer("transformers.models.llama.modeling_llama")
    config = llama.LlamaConfig(hidden_size=24, num_attention_heads=2, head_dim=12, rope_theta=10000.0)
    query, key, at = torch.randn(2, 2, 40, 12), torch.randn(2, 2, 40, 12), torch.arange(40)
    cos, sin = llama.LlamaRotaryEmbedding(config)(query, at[None])
    theirs = llama.apply_rotary_pos_emb(query, key, cos, sin)
    angles = positions.rotary_angles(at, 12)
    for x, expected in zip((query, key), theirs, strict=True):
        assert equal(positions.rotate(x, angles), expected)


def test_rotated_queries_and_keys_know_only_how_far_apart_they_are():
    query, key = torch.randn(8), torch.randn(8)
    angles = positions.rotary_angles(torch.arange(60), 8)

    def score(i: int, j: int) -> torch.Tensor:
        return positions.rotate(query[None], angles[i : i + 1]) @ positions.rotate(key[None], angles[j : j + 1]).T

    assert equal(score(3, 1), score(52, 50))
    assert not equal(score(3, 1), score(3, 2), tolerance=1e-3)


def test_two_dimensional_angles_turn_half_with_the_row_and_half_with_the_column():
    angles = positions.rotary_angles_2d(2, 3, 8).view(2, 3, 4)
    one = positions.rotary_angles(torch.arange(3), 4, base=100.0)
    assert equal(angles[1, 2], torch.cat([one[1], one[2]]))
    assert torch.equal(angles[:, 0, 2:], torch.zeros(2, 2))


def test_rotation_keeps_the_type_it_is_given():
    x = torch.randn(5, 8, dtype=torch.bfloat16)
    assert positions.rotate(x, positions.rotary_angles(torch.arange(5), 8)).dtype == torch.bfloat16
