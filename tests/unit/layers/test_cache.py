"""The cache alone: what is written where, who sees what, rows that leave and rows that arrive."""

import copy

import torch

from clearhead.layers import Cache
from clearhead.layers.cache import stepped

HEADS, KEY, VALUE = 2, 3, 4


def empty(batch: int, size: int = 8, layers: int = 2) -> Cache:
    return Cache.empty(layers, batch, size, HEADS, (KEY, VALUE), torch.device("cpu"), torch.float32)


def new(batch: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, HEADS, count, KEY), torch.randn(batch, HEADS, count, VALUE)


def filled(lengths: list[int], size: int = 8) -> tuple[Cache, torch.Tensor, torch.Tensor]:
    """A cache after a ragged prompt, and what was written."""
    cache, (key, value) = empty(len(lengths), size), new(len(lengths), max(lengths))
    cache.begin(max(lengths))
    for layer in range(2):
        cache.extend(layer, key + layer, value + layer)
    cache.advance(max(lengths), torch.tensor(lengths))
    return cache, key, value


def test_new_keys_and_values_are_returned_behind_the_old_ones_in_every_layer():
    cache, key, value = filled([3, 3])
    next_key, next_value = new(2, 2)
    cache.begin(2)
    for layer in range(2):
        keys, values = cache.extend(layer, next_key, next_value)
        assert torch.equal(keys, torch.cat([key + layer, next_key], 2))
        assert torch.equal(values, torch.cat([value + layer, next_value], 2))


def test_a_ragged_rows_next_token_is_written_behind_its_own_end():
    cache, key, _ = filled([4, 2])
    next_key, next_value = new(2, 1)
    cache.begin(1)
    keys, _ = cache.extend(0, next_key, next_value)
    assert keys.shape[2] == 5
    assert torch.equal(keys[0, :, 4], next_key[0, :, 0])
    assert torch.equal(keys[1, :, 2], next_key[1, :, 0])
    assert torch.equal(keys[1, :, :2], key[1, :, :2])
    assert cache.positions(2).tolist() == [[4, 5], [2, 3]]


def test_the_mask_shows_a_row_its_own_past_and_nothing_later():
    cache, _, _ = filled([4, 2])
    cache.begin(2)
    seen = cache.mask(2)
    assert seen is not None
    assert seen.shape == (2, 1, 2, 6)
    assert seen[0, 0].int().tolist() == [[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]]
    assert seen[1, 0].int().tolist() == [[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0]]


def test_a_window_cuts_the_mask_to_the_last_tokens():
    cache, _, _ = filled([4, 2])
    cache.begin(1)
    seen = cache.mask(1, window=2)
    assert seen is not None
    assert seen[:, 0, 0].int().tolist() == [[0, 0, 0, 1, 1], [0, 1, 1, 0, 0]]


def test_a_full_cache_grows_and_forgets_nothing():
    cache, key, value = filled([3, 2], size=3)
    cache.begin(1)
    keys, values = cache.extend(1, *new(2, 1))
    assert cache.size >= 4
    assert torch.equal(keys[0, :, :3], key[0] + 1)
    assert torch.equal(values[1, :, :2], value[1, :, :2] + 1)


def test_select_takes_rows_in_any_order_and_leaves_the_cache_alone():
    cache, key, _ = filled([4, 2, 3])
    before = [t.clone() for t in (*cache.keys, *cache.values)]
    beams = cache.select(torch.tensor([2, 0, 0]))
    assert beams.lengths.tolist() == [3, 4, 4]
    next_key, next_value = new(3, 1)
    beams.begin(1)
    keys, _ = beams.extend(0, next_key, next_value)
    assert torch.equal(keys[0, :, :3], key[2, :, :3])
    assert torch.equal(keys[1, :, :4], key[0, :, :4])
    assert torch.equal(keys[2, :, 4], next_key[2, :, 0])
    assert all(torch.equal(now, was) for now, was in zip((*cache.keys, *cache.values), before, strict=True))


def test_join_puts_arriving_rows_behind_ours_whatever_their_sizes():
    ours, key, _ = filled([4, 2], size=8)
    theirs, other_key, _ = filled([1, 6], size=6)
    both = ours.join(theirs)
    assert both.lengths.tolist() == [4, 2, 1, 6]
    next_key, next_value = new(4, 1)
    both.begin(1)
    keys, _ = both.extend(0, next_key, next_value)
    for row, source, length in ((0, key[0], 4), (1, key[1], 2), (2, other_key[0], 1), (3, other_key[1], 6)):
        assert torch.equal(keys[row, :, :length], source[:, :length])
        assert torch.equal(keys[row, :, length], next_key[row, :, 0])
    seen = both.mask(1)
    assert seen is not None
    assert seen.sum(-1).flatten().tolist() == [5, 3, 2, 7]


def static(lengths: list[int], bucket: int = 4, size: int = 6) -> Cache:
    """A cache in static shapes after a ragged prompt."""
    cache = Cache.empty(2, len(lengths), size, HEADS, (KEY, VALUE), torch.device("cpu"), torch.float32, bucket)
    cache.begin(max(lengths))
    for layer in range(2):
        cache.extend(layer, *new(len(lengths), max(lengths)))
    cache.advance(max(lengths), torch.tensor(lengths))
    return cache


def test_in_static_shapes_the_first_one_two_three_four_six_buckets_are_looked_at():
    cache = static([3, 3])
    assert cache.size == 8
    for used, seen in ((4, 4), (5, 8), (6, 8), (7, 8), (8, 8), (9, 12), (10, 12)):
        cache.begin(1)
        assert cache.seen == seen
        keys, values = cache.extend(0, *new(2, 1))
        assert keys.shape[2] == values.shape[2] == seen
        cache.advance(1)
        assert cache.used == used
    assert cache.size >= 16
    assert [stepped(4, least) for least in (0, 1, 4, 5, 9, 13, 17, 25, 33, 49)] == [4, 4, 4, 8, 12, 16, 24, 32, 48, 64]


def test_in_static_shapes_no_more_slots_are_held_or_looked_at_than_were_asked_for():
    """But for a few that make a multiple of eight; a text that outgrows them gets more."""
    cache = static([30, 30], bucket=96, size=33)
    assert cache.size == 40
    for _ in range(10):
        cache.begin(1)
        assert cache.seen == cache.size == 40
        cache.advance(1)
    cache.begin(1)
    assert cache.size == 80
    assert cache.seen == 80


def test_in_static_shapes_even_rows_have_a_mask_and_positions_of_their_own():
    cache = static([3, 3])
    cache.begin(1)
    mask = cache.mask(1)
    assert mask is not None
    assert mask.shape == (2, 1, 1, 4)
    assert cache.positions(2).tolist() == [[3, 4], [3, 4]]
    assert not cache.fresh


def test_when_the_longest_rows_leave_fewer_slots_are_looked_at():
    cache, _, _ = filled([6, 2, 2])
    rest = cache.select(torch.tensor([1, 2]))
    rest.begin(1)
    assert (rest.used, rest.even, rest.seen) == (2, True, 3)
    assert rest.mask(1) is None


def test_a_selection_of_no_rows_is_empty_and_takes_no_part_in_a_join():
    cache, _, _ = filled([6, 6])
    nobody = cache.select(torch.tensor([], dtype=torch.long))
    assert (len(nobody.lengths), nobody.used) == (0, 0)
    arriving, key, _ = filled([2, 3])
    both = nobody.join(arriving)
    assert both.used == 3
    both.begin(1)
    assert torch.equal(both.extend(0, *new(2, 1))[0][1, :, :3], key[1, :, :3])


def test_slots_that_ragged_rows_look_at_under_a_mask_hold_numbers():
    """Even rows are copied into memory as it comes; when they become ragged, the rest of it is wiped."""
    cache, _, _ = filled([3, 3])
    rows = cache.select(torch.tensor([0, 1, 1]))
    for store in (*rows.keys, *rows.values):
        store[:, rows.used :] = torch.nan
    rows.begin(2)
    for layer in range(2):
        rows.extend(layer, *new(3, 2))
    rows.advance(2, torch.tensor([1, 2, 1]))
    rows.begin(1)
    for layer in range(2):
        keys, values = rows.extend(layer, *new(3, 1))
        assert keys.shape[2] == 6
        assert keys.isfinite().all()
        assert values.isfinite().all()


def test_rows_reordered_in_place_are_those_that_are_selected():
    for lengths in ([3, 3, 3], [3, 1, 2]):
        ours = static(lengths, size=9)
        theirs = copy.deepcopy(ours)
        rows = torch.tensor([2, 0, 2])
        memory = ours.keys[0].data_ptr()
        chosen = theirs.select(rows)
        ours.reorder(rows)
        assert ours.keys[0].data_ptr() == memory
        assert torch.equal(ours.lengths, chosen.lengths) and (ours.used, ours.even) == (chosen.used, chosen.even)
        for side, other in ((ours.keys, chosen.keys), (ours.values, chosen.values)):
            for store, wanted in zip(side, other, strict=True):
                for row, length in enumerate(chosen.lengths.tolist()):
                    assert torch.equal(store[row, :length], wanted[row, :length])
