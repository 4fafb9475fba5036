"""Sentences and phrases of them: which rows of a set stand in other rows, word for word.

SST-2's training part is 67,349 rows of some 6,900 sentences. Whoever holds out rows by lot holds out phrases of
sentences that are learnt, and is told 95% where unseen sentences give 90%.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

import torch

from .kinds import Labelled
from .text_files import lot


def wholes(texts: Sequence[str]) -> list[list[int]]:
    """For each text the rows of those that hold it and stand in no other; of one that no other holds, its own.

    Of equal texts the first one stands for all. Words are told apart by spaces.
    """
    count = Counter(word for text in texts for word in set(text.split()))
    with_word: dict[str, list[int]] = defaultdict(list)
    found: list[list[int]] = [[] for _ in texts]
    for row in sorted(range(len(texts)), key=lambda row: -len(texts[row])):
        words = set(texts[row].split())
        rarest = min(words, key=lambda word: (count[word], word), default="")
        holding = [whole for whole in with_word[rarest] if f" {texts[row]} " in f" {texts[whole]} "]
        found[row] = sorted(holding) or [row]
        if found[row] == [row]:
            for word in words:
                with_word[word].append(row)
    return found


def by_sentence(part: Labelled, share: float, seed: int = 0) -> tuple[Labelled, Labelled]:
    """Rows to learn from, and a share of the whole sentences, of which no row to learn from is a phrase."""
    found = wholes(part.texts)
    sentences = sorted({row for rows in found for row in rows}, key=lambda row: lot(part.texts[row], seed))
    held = set(sentences[: round(share * len(sentences))])
    learnt = [row for row, rows in enumerate(found) if not held.intersection(rows)]
    return _rows(part, learnt), _rows(part, sorted(held))


def _rows(part: Labelled, rows: Sequence[int]) -> Labelled:
    return Labelled([part.texts[row] for row in rows], part.labels[torch.tensor(rows, dtype=torch.int64)])
