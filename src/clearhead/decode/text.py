"""Tokens back to text while they come: whole characters only, and nothing behind a stop string.

A token may end in the middle of a UTF-8 sequence, and whether a space stands between two words can depend on what
follows; so the text of all tokens is asked for, and only what can't change any more is given out.
"""

from collections.abc import Sequence

from ..data.tokenizers import Tokenizer
from ..errors import ClearheadError

BROKEN = "\N{REPLACEMENT CHARACTER}"  # what decoders write for bytes that are not yet a character


class TextStream:
    """The text of one row, token by token. `add` returns what is new and certain; `finish` returns the rest."""

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = (), before: Sequence[int] = ()) -> None:
        """`before` are the tokens that the text goes on from: spaces may depend on them; their text is not repeated."""
        if any(not text for text in stop):
            raise ClearheadError("a stop string is empty")
        self.tokenizer, self.stop = tokenizer, tuple(stop)
        self._tokens = list(before)
        self._skip = len(tokenizer.text(self._tokens)) if self._tokens else 0
        self._given = 0
        self.text = ""
        self.stopped: str | None = None

    def add(self, token: int) -> str:
        """One more token; after a stop string nothing comes any more."""
        if self.stopped is not None:
            return ""
        self._tokens.append(token)
        whole = self.tokenizer.text(self._tokens)[self._skip :]
        self._cut(whole)
        certain = len(self.text) if self.stopped is not None else self._certain(self.text)
        return self._give(certain)

    def finish(self) -> str:
        """What was held back: the end of the text as it stands."""
        return self._give(len(self.text))

    def _cut(self, whole: str) -> None:
        """Up to the earliest stop string, if one is there now."""
        found = [(place, text) for text in self.stop if (place := whole.find(text)) >= 0]
        if found:
            place, self.stopped = min(found)
            whole = whole[:place]
        self.text = whole

    def _certain(self, text: str) -> int:
        """How much of it can't change: no broken character at the end, no beginning of a stop string."""
        end = len(text.rstrip(BROKEN))
        held = (size for stop in self.stop for size in range(1, len(stop)) if text[:end].endswith(stop[:size]))
        return end - max(held, default=0)

    def _give(self, end: int) -> str:
        new = self.text[self._given : end] if end > self._given else ""
        self._given = max(self._given, end)
        return new
