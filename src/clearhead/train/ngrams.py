"""Counting models to measure a trained one against: bytes by the four before them, words by none or by their left one.

`ByteModel` is an n-gram model over bytes with Witten-Bell back-off (Witten and Bell 1991; Chen and Goodman 1999, in
its interpolated form): what was counted behind a history h and what the history one byte shorter says are mixed by

    p(w | h) = (count(h w) + kinds(h) p(w | shorter h)) / (count(h) + kinds(h))

where kinds(h) is how many different bytes were seen behind h; a history that was never seen passes on what the shorter
one says, and behind all of them each of the 256 bytes is as likely as any other. So every byte has a probability above
0, they sum to 1, and there is nothing to tune. Histories do not reach across documents. Beside it, on the same counts,
stands the crudest back-off, "add-one": the longest history that was seen decides alone, with one added to every count.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

Text = str | bytes
BYTES = 256
BACK_OFFS = ("witten-bell", "add-one")
LONGEST_ORDER = 7  # so many bytes fit a whole number of 64 bits, signed


@dataclass(frozen=True)
class _Table:
    """Sorted keys and how often each was seen; `kinds` of a history are its different continuations."""

    keys: np.ndarray
    counts: np.ndarray
    kinds: np.ndarray

    def look_up(self, keys: np.ndarray, column: np.ndarray) -> np.ndarray:
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, column[place], 0)


class ByteModel:
    """Learnt by counting; `bits_per_byte` says how well it foretells other texts."""

    def __init__(self, documents: Iterable[Text], order: int = 5) -> None:
        if not 1 <= order <= LONGEST_ORDER:
            raise ValueError(f"an order from 1 to {LONGEST_ORDER} can be counted, not {order}")
        self.order = order
        text, depth = _joined(documents)
        self._grams: list[_Table] = []
        self._histories: list[_Table] = []
        for length in range(order):
            keys = _keys(text, length + 1)[depth >= length]
            grams, counts = np.unique(keys, return_counts=True)
            histories, first = np.unique(grams // BYTES, return_index=True)
            self._grams.append(_Table(grams, counts, counts))
            totals = np.add.reduceat(counts, first) if len(counts) else counts
            self._histories.append(_Table(histories, totals, np.diff(np.append(first, len(grams)))))

    def probabilities(self, documents: Iterable[Text], back_off: str = "witten-bell") -> np.ndarray:
        """For every byte of the documents how likely it was, given those before it."""
        if back_off not in BACK_OFFS:
            raise ValueError(f"back_off must be one of {', '.join(BACK_OFFS)}, not {back_off!r}")
        text, depth = _joined(documents)
        chance = np.full(len(text), 1 / BYTES)
        for length, (grams, histories) in enumerate(zip(self._grams, self._histories, strict=True)):
            if not len(grams.keys):
                break
            keys = _keys(text, length + 1)
            seen = histories.look_up(keys // BYTES, histories.counts)
            kinds = histories.look_up(keys // BYTES, histories.kinds)
            known = (seen > 0) & (depth >= length)
            added, spread = (kinds * chance, kinds) if back_off == "witten-bell" else (1.0, BYTES)
            mixed = (grams.look_up(keys, grams.counts) + added) / np.maximum(seen + spread, 1)
            chance = np.where(known, mixed, chance)
        return chance

    def bits_per_byte(self, documents: Iterable[Text], back_off: str = "witten-bell") -> float:
        chances = self.probabilities(documents, back_off)
        return float(-np.log2(chances).mean())


def _joined(documents: Iterable[Text]) -> tuple[np.ndarray, np.ndarray]:
    """All bytes one after another, and for each how many of its own document stand before it."""
    raw = (text.encode() if isinstance(text, str) else text for text in documents)
    texts = [np.frombuffer(text, np.uint8) for text in raw]
    depths = [np.arange(len(text)) for text in texts]
    joined, depth = (
        np.concatenate([np.zeros(0, kind), *parts]) for kind, parts in ((np.uint8, texts), (np.int64, depths))
    )
    return joined, depth


def _keys(text: np.ndarray, length: int) -> np.ndarray:
    """For each byte the number that it makes together with the `length` - 1 bytes before it; missing ones are 0."""
    keys = np.zeros(len(text), np.int64)
    for back in range(length - 1, -1, -1):
        keys *= BYTES
        keys[back:] += text[: max(0, len(text) - back)]
    return keys


class WordModel:
    """Tokens by how often they stand anywhere, and behind which left neighbour: the best guess of each, exactly.

    Of equally frequent ones the smallest number is taken.
    """

    def __init__(self, documents: Iterable[np.ndarray], vocabulary: int) -> None:
        single, pairs = np.zeros(vocabulary, np.int64), [np.zeros(0, np.int64)]
        for numbers in documents:
            wide = numbers.astype(np.int64)
            single += np.bincount(wide, minlength=vocabulary)
            pairs.append(wide[:-1] * vocabulary + wide[1:])
        self.counts = single
        self.best = int(single.argmax())
        self.best_after = np.full(vocabulary, self.best)
        keys, counts = np.unique(np.concatenate(pairs), return_counts=True)
        left, right = keys // vocabulary, keys % vocabulary
        order = np.lexsort((right, -counts, left))
        known, first = np.unique(left[order], return_index=True)
        self.best_after[known] = right[order][first]

    def by_frequency(self, count: int) -> np.ndarray:
        """The unigram's guesses: always the most frequent token."""
        return np.full(count, self.best)

    def by_left_neighbour(self, left: np.ndarray) -> np.ndarray:
        """The bigram's guesses; behind a token that was never seen with anything behind it, the unigram's."""
        return self.best_after[left]
