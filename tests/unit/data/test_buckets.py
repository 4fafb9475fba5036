"""Batches by length: every pair once, within the budget, little padding, pure, and divisible among processes."""

import numpy as np
import pytest

from clearhead.data.buckets import EMPTY, batches, even_batches, padding_share
from clearhead.errors import ClearheadError
from tests.minilm import data_set


def lengths(count: int = 20_000) -> tuple[list[int], list[int]]:
    """As captions have them: 4 to 45 pieces, the translation about as long."""
    random = np.random.default_rng(0)
    source = np.clip(np.rint(random.lognormal(2.6, 0.35, count)), 4, 45).astype(int)
    target = np.clip(np.rint(source * random.normal(1.05, 0.2, count)), 3, 60).astype(int)
    return source.tolist(), target.tolist()


def test_every_pair_is_in_one_batch_and_no_batch_is_over_the_budget():
    source, target = lengths()
    listed = batches(source, target, tokens=2048)
    assert sorted(row for rows in listed for row in rows) == list(range(20_000))
    for rows in listed:
        assert len(rows) * max(max(source[row], target[row]) for row in rows) <= 2048


@pytest.mark.parametrize("size", [{"tokens": 4096}, {"sentences": 128}, {"tokens": 1024, "sentences": 64}])
def test_little_is_padding_on_realistic_lengths(size):
    source, target = lengths()
    listed = batches(source, target, **size)
    assert padding_share(source, target, listed) < 0.1
    as_they_come = [list(range(start, min(start + 128, 20_000))) for start in range(0, 20_000, 128)]
    assert padding_share(source, target, as_they_come) > 0.4
    assert all(len(rows) <= size.get("sentences", 20_000) for rows in listed)


def test_little_is_padding_on_the_real_captions():
    from clearhead.data.text_parallel import multi30k

    train = multi30k(data_set("multi30k")).parts["train"]
    source, target = ([len(text.split()) for text in side] for side in (train.sources, train.targets))
    assert padding_share(source, target, batches(source, target, tokens=4096)) < 0.05


def test_an_epoch_is_a_pure_function_of_seed_and_epoch():
    source, target = lengths(500)
    make = {
        (seed, epoch): batches(source, target, tokens=512, seed=seed, epoch=epoch)
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert batches(source, target, tokens=512, seed=1, epoch=1) == make[1, 1]
    distinct = {str(listed) for listed in make.values()}
    assert len(distinct) == 4
    first, second = ({tuple(sorted(rows)) for rows in make[0, epoch]} for epoch in (0, 1))
    assert first != second
    longest = [max(source[row] for row in rows) for rows in make[0, 0]]
    assert longest != sorted(longest)


def test_the_shares_of_all_processes_are_the_global_batch():
    source, target = lengths(1000)
    whole = batches(source, target, tokens=512, smallest=3, seed=5)
    shares = [batches(source, target, tokens=512, smallest=3, seed=5, rank=rank, world=3) for rank in range(3)]
    for rows, *parts in zip(whole, *shares, strict=True):
        assert sorted(row for part in parts for row in part) == sorted(rows)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


WIDTHS = (16, 24, 32, 64)
SHAPES = [(width, width) for width in WIDTHS]


def test_batches_of_few_shapes_hold_every_pair_once_in_a_width_that_holds_it():
    source, target = lengths()
    listed = even_batches(source, target, SHAPES, tokens=2048)
    there = [row for _, rows in listed for row in rows if row != EMPTY]
    assert sorted(there) == list(range(20_000))
    assert {(shape, len(rows)) for shape, rows in listed} == {(shape, 2048 // shape[0]) for shape in SHAPES}
    for (width, _), rows in listed:
        assert all(max(source[row], target[row]) <= width for row in rows if row != EMPTY)


@pytest.mark.parametrize("tokens", [2048, 8192])
def test_batches_of_few_shapes_are_nearly_full_and_evenly_so(tokens):
    source, target = lengths()
    listed = even_batches(source, target, SHAPES, tokens=tokens)
    empty = sum(rows.count(EMPTY) for _, rows in listed) / sum(len(rows) for _, rows in listed)
    assert empty < 0.05
    for wanted in WIDTHS:
        real = [sum(row != EMPTY for row in rows) for (width, _), rows in listed if width == wanted]
        assert max(real) - min(real) <= 1 and (wanted == WIDTHS[-1] or 2 * min(real) >= tokens // wanted)
    filled = sum(sum(shape) * len(rows) for shape, rows in listed)
    assert (sum(source) + sum(target)) / filled > 0.65


def test_sources_and_targets_may_have_widths_of_their_own():
    source, target = lengths()
    short, shapes = [length // 2 for length in target], [(16, 8), (24, 16), (48, 32)]
    listed = even_batches(source, short, shapes, tokens=2048)
    assert sorted(row for _, rows in listed for row in rows if row != EMPTY) == list(range(20_000))
    assert {(shape, len(rows)) for shape, rows in listed} == {(shape, 2048 // shape[0]) for shape in shapes}
    for (wide, narrow), rows in listed:
        assert all(source[row] <= wide and short[row] <= narrow for row in rows if row != EMPTY)


def test_too_few_pairs_for_half_a_batch_go_to_the_next_shape():
    shapes = [(8, 8), (16, 16), (32, 32)]
    listed = even_batches([4] * 3 + [9] * 10, [4] * 13, shapes, tokens=64)
    assert sorted((shape, sum(row != EMPTY for row in rows)) for shape, rows in listed) == [
        ((16, 16), 3),
        ((16, 16), 3),
        ((16, 16), 3),
        ((16, 16), 4),
    ]
    assert [shape for shape, _ in even_batches([4] * 4, [4] * 4, shapes, tokens=64)] == [(8, 8)]
    assert [(shape, rows.count(EMPTY)) for shape, rows in even_batches([4], [4], shapes[:2], tokens=64)] == [
        ((16, 16), 3)
    ]


def test_batches_of_few_shapes_are_a_pure_function_of_seed_and_epoch():
    source, target = lengths(1000)
    make = {
        (seed, epoch): even_batches(source, target, SHAPES, sentences=32, seed=seed, epoch=epoch)
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert even_batches(source, target, SHAPES, sentences=32, seed=1, epoch=1) == make[1, 1]
    assert len({str(listed) for listed in make.values()}) == 4
    assert len({len(listed) for listed in make.values()}) == 1
    shapes = [shape for shape, _ in make[0, 0]]
    assert shapes != sorted(shapes)


@pytest.mark.parametrize("world", [2, 3])
def test_the_shares_of_batches_of_few_shapes_are_the_global_batch_and_as_even(world):
    source, target = lengths(1000)
    options = {"tokens": 512, "smallest": world, "seed": 5}
    whole = even_batches(source, target, SHAPES, **options)
    shares = [even_batches(source, target, SHAPES, **options, rank=rank, world=world) for rank in range(world)]
    for (shape, rows), *parts in zip(whole, *shares, strict=True):
        assert {part[0] for part in parts} == {shape}
        assert sorted(row for _, part in parts for row in part) == sorted(rows)
    for share in shares:
        assert len({(shape, len(rows)) for shape, rows in share}) == len({shape for shape, _ in share})


def test_what_does_not_fit_few_shapes_is_refused_in_one_line():
    with pytest.raises(ClearheadError, match="a pair is longer than the widest shape"):
        even_batches([3], [40], [(16, 16), (64, 32)], tokens=64)
    with pytest.raises(ClearheadError, match="a batch of 2 pairs can't be divided among 3 processes: set smallest=3"):
        even_batches([20], [3], [(32, 16)], tokens=64, world=3)
    with pytest.raises(ClearheadError, match="say how large a batch may be"):
        even_batches([20], [3], [(32, 16)])


def test_a_pair_longer_than_the_budget_is_a_batch_of_its_own():
    listed = batches([5, 100, 5, 5], [5, 5, 5, 5], tokens=20)
    assert [1] in listed and sorted(map(len, listed)) == [1, 3]


def test_smallest_holds_whatever_the_budget_and_the_remainder_say():
    listed = batches([9] * 11, [9] * 11, tokens=1, smallest=4)
    assert sorted(map(len, listed)) == [4, 7]
    assert batches([9, 9], [9, 9], sentences=1, smallest=4) in ([[0, 1]], [[1, 0]])


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        (([1], [1, 2]), {"tokens": 9}, "1 sources and 2 targets"),
        (([], []), {"tokens": 9}, "0 sources and 0 targets"),
        (([1], [1]), {}, "say how large a batch may be"),
        (([1], [1]), {"tokens": -1}, "has a number below 1 in it"),
        (([1], [1]), {"tokens": 9, "smallest": 0}, "has a number below 1 in it"),
        (([1], [1]), {"tokens": 9, "rank": 2, "world": 2}, "there is no process 2 of 2"),
        (
            ([5, 5, 9], [5, 5, 9]),
            {"tokens": 10, "rank": 0, "world": 2},
            "can't be divided among 2 processes: set smallest=2",
        ),
    ],
)
def test_what_makes_no_batches_is_refused_in_one_line(args, options, message):
    with pytest.raises(ClearheadError, match=message) as caught:
        batches(*args, **options)
    assert "\n" not in str(caught.value)
