"""Batches of pairs of about the same length, so that little is padding: for translation.

`batches` has as little padding as can be, and nearly every batch a shape of its own; `even_batches` has few shapes, for
devices that prepare themselves for each. An epoch's batches are a pure function of the lengths, the budget, the seed
and the epoch, whatever the number of processes; the random numbers are Philox's own, whose stream NumPy promises to
keep.
"""

from collections.abc import Sequence

import numpy as np

from .text_files import require

Shape = tuple[int, int]  # tokens that a batch's sources and targets are filled up to

EMPTY = -1  # the number of a row that is not there: it fills a batch up to its size


def batches(
    sources: Sequence[int],
    targets: Sequence[int],
    *,
    tokens: int | None = None,
    sentences: int | None = None,
    seed: int = 0,
    epoch: int = 0,
    smallest: int = 1,
    rank: int = 0,
    world: int = 1,
) -> list[list[int]]:
    """An epoch's batches as lists of row numbers, in random order; every row is in one batch.

    A batch holds as many pairs as make at most `tokens` when filled up, sources or targets, whichever are more; or
    `sentences` pairs. Both may be given. It has at least `smallest` pairs, whatever the budget says, as far as there
    are so many. Of each batch, process `rank` of `world` gets its share: together they have all of it.
    """
    _check(sources, targets, tokens, sentences, smallest, rank, world)
    source, target = np.asarray(sources, np.int64), np.asarray(targets, np.int64)
    cut = _cut(_by_length(source, target, seed, epoch), np.maximum(source, target), tokens, sentences, smallest)
    order = np.argsort(_drawn(len(cut), seed, epoch, stream=1), kind="stable")
    least = min(map(len, cut))
    _check_share(least, world)
    return [cut[place][rank::world] for place in order.tolist()]


def even_batches(
    sources: Sequence[int],
    targets: Sequence[int],
    shapes: Sequence[Shape],
    *,
    tokens: int | None = None,
    sentences: int | None = None,
    seed: int = 0,
    epoch: int = 0,
    smallest: int = 1,
    rank: int = 0,
    world: int = 1,
) -> list[tuple[Shape, list[int]]]:
    """An epoch's batches as shapes with row numbers, in random order; every row is in one batch.

    A shape says how wide sources and targets are filled up, from narrow to wide on both sides, and all its batches have
    the same number of rows: as many as `tokens` and `sentences` allow, `smallest` at least. A pair goes to the first
    shape that holds it. Those of a shape are dealt evenly among as few batches as hold them, and `EMPTY` rows fill
    these up; where they would not fill half a batch they go to the next shape.
    """
    _check(sources, targets, tokens, sentences, smallest, rank, world)
    lengths, widths = np.stack([sources, targets], 1), np.array(shapes)
    drawn = np.argsort(_drawn(len(lengths), seed, epoch, stream=0), kind="stable")
    fits = np.maximum(*(np.searchsorted(widths[:, side], lengths[drawn, side]) for side in (0, 1)))
    require(int(fits.max()) < len(shapes), "a pair is longer than the widest shape of a batch")
    cut: list[tuple[Shape, list[int], int]] = []
    waiting = drawn[:0]
    for place, shape in enumerate(shapes):
        size = _rows_of(max(shape), tokens, sentences, smallest)
        _check_share(size, world)
        waiting = np.concatenate([waiting, drawn[fits == place]])
        if 2 * len(waiting) >= size or place == len(shapes) - 1:
            count = -(-len(waiting) // size)
            cut += [(shape, waiting[first::count].tolist(), size) for first in range(count)]
            waiting = drawn[:0]
    order = np.argsort(_drawn(len(cut), seed, epoch, stream=1), kind="stable")
    return [(shape, _filled(rows, size, rank, world)) for shape, rows, size in (cut[place] for place in order.tolist())]


def _rows_of(width: int, tokens: int | None, sentences: int | None, smallest: int) -> int:
    allowed = [size for size in (None if tokens is None else tokens // width, sentences) if size is not None]
    return max(smallest, min(allowed))


def _filled(rows: list[int], size: int, rank: int, world: int) -> list[int]:
    """One process's share of a batch, filled up to its share of the size."""
    share = rows[rank::world]
    return share + [EMPTY] * (len(range(rank, size, world)) - len(share))


def padding_share(sources: Sequence[int], targets: Sequence[int], listed: Sequence[Sequence[int]]) -> float:
    """How much of the filled-up batches is padding, both sides together."""
    real = filled = 0
    for rows in listed:
        for lengths in (sources, targets):
            ours = [lengths[row] for row in rows]
            real, filled = real + sum(ours), filled + len(ours) * max(ours)
    return 1 - real / filled if filled else 0.0


def _check(
    sources: Sequence[int],
    targets: Sequence[int],
    tokens: int | None,
    sentences: int | None,
    smallest: int,
    rank: int,
    world: int,
) -> None:
    require(
        len(sources) == len(targets) and len(sources),
        f"batches are made of pairs: there are {len(sources)} sources and {len(targets)} targets",
    )
    require(tokens or sentences, "say how large a batch may be: in tokens, in sentences or both")
    sizes = [size for size in (tokens, sentences, smallest, world) if size is not None]
    require(min(sizes) >= 1, f"a batch can't be made to measure: {sizes} has a number below 1 in it")
    require(0 <= rank < world, f"there is no process {rank} of {world}")


def _check_share(size: int, world: int) -> None:
    require(size >= world, f"a batch of {size} pairs can't be divided among {world} processes: set smallest={world}")


def _drawn(count: int, seed: int, epoch: int, stream: int) -> np.ndarray:
    key = np.array([seed % 2**64, (2 * epoch + stream) % 2**64], np.uint64)
    return np.random.Philox(key=key).random_raw(count)


def _by_length(source: np.ndarray, target: np.ndarray, seed: int, epoch: int) -> np.ndarray:
    """All rows from short to long sources, those of the same length by target, those equal in both as drawn.

    Targets go up with one length of source and down with the next: so there is no jump between neighbours.
    """
    rank = np.unique(source, return_inverse=True)[1]
    there_and_back = np.where(rank % 2 == 0, target, -target)
    return np.lexsort((_drawn(len(source), seed, epoch, stream=0), there_and_back, source))


def _cut(
    order: np.ndarray, longest: np.ndarray, tokens: int | None, sentences: int | None, smallest: int
) -> list[list[int]]:
    """The order cut into batches, each as large as it may be; a remainder that is too small joins the one before."""
    cut: list[list[int]] = []
    current: list[int] = []
    widest = 0
    for row in order.tolist():
        wider = max(widest, int(longest[row]))
        full = (tokens is not None and wider * (len(current) + 1) > tokens) or len(current) == sentences
        if full and len(current) >= smallest:
            cut.append(current)
            current, wider = [], int(longest[row])
        current.append(row)
        widest = wider
    if cut and len(current) < smallest:
        cut[-1] += current
    else:
        cut.append(current)
    return cut
