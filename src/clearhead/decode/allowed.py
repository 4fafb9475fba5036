"""A closed set of answers: whatever is written is one of these sequences, and the model only ranks them."""

from collections.abc import Iterable, Sequence

from ..errors import ClearheadError


class Allowed:
    """The sequences as a tree of tokens. After any beginning it knows which tokens may follow, and if it may end."""

    def __init__(self, sequences: Iterable[Sequence[int]]) -> None:
        self._root: dict[int, dict] = {}
        self._whole: set[tuple[int, ...]] = set()
        for sequence in sequences:
            if not sequence:
                raise ClearheadError("an allowed continuation has no token")
            self._whole.add(tuple(sequence))
            node = self._root
            for token in sequence:
                node = node.setdefault(token, {})
        if not self._whole:
            raise ClearheadError("no continuation is allowed: give at least one")

    def next(self, tokens: Sequence[int]) -> list[int]:
        """Which tokens may follow this beginning; none behind the end of a sequence, or off every path."""
        node = self._root
        for token in tokens:
            node = node.get(token, {})
        return list(node)

    def complete(self, tokens: Sequence[int]) -> bool:
        return tuple(tokens) in self._whole
