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

    def next(self, tokens: Sequence[int], end: frozenset[int] = frozenset()) -> list[int]:
        """Which tokens may follow this beginning; none behind the end of a sequence, or off every path.

        Where a sequence is complete and others go on from it, a token of `end` may follow too.
        """
        node = self._root
        for token in tokens:
            node = node.get(token, {})
        return [*node, *sorted(end - node.keys())] if node and self.complete(tokens) else list(node)

    def complete(self, tokens: Sequence[int]) -> bool:
        return tuple(tokens) in self._whole

    def check(self, length: int, end: frozenset[int], never: frozenset[int]) -> None:
        """Refuse what could not be written whole: the answer would be none of the sequences."""
        for sequence in self._whole:
            if len(sequence) > length:
                raise ClearheadError(f"an allowed continuation has {len(sequence)} tokens, but {length} may be written")
            if not never.isdisjoint(sequence):
                raise ClearheadError("an allowed continuation holds a token that is never written")
            if not end.isdisjoint(sequence[:-1]):
                raise ClearheadError("an allowed continuation goes on behind an end token")
            if not end and self.next(sequence):
                raise ClearheadError("an allowed continuation begins another: without an end token it is never written")
