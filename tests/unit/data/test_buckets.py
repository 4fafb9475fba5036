"""Batches by length: every pair once, within the budget, little padding, pure, and divisible among processes."""

import numpy as np
import pytest

from clearhead.data.buckets import batches, padding_share
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
