"""Tokens back to text while they come: whole characters only, and nothing behind a stop string.

A token may end in the middle of a UTF-8 sequence, and whether a space stands between two words can depend on what
follows; so the text of the last tokens is asked for again with every new one, and only what can't change any more is
given out. Tokens further back are left behind: a token costs the same however long the text is.
"""

from collections.abc import Sequence

from ..data.tokenizers import Tokenizer
from ..errors import ClearheadError

BROKEN = "\N{REPLACEMENT CHARACTER}"  # what decoders write for bytes that are not yet a character
NEAR = 16  # tokens further apart than this have no say in one another's text


class TextStream:
    """The text of one row, token by token. `add` returns what is new and certain; `finish` returns the rest."""

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = (), before: Sequence[int] = ()) -> None:
        """`before` are the tokens that the text goes on from: spaces may depend on them; their text is not repeated."""
        if any(not text for text in stop):
            raise ClearheadError("a stop string is empty")
        if any(BROKEN in text for text in stop):
            raise ClearheadError("a stop string holds U+FFFD, which stands for bytes that are no character yet")
        self.tokenizer, self.stop = tokenizer, tuple(stop)
        self._tokens = list(before)  # those whose text is asked for, but for its first `_skip` characters
        self._skip = len(tokenizer.text(self._tokens)) if self._tokens else 0
        self._behind = ""  # the text of those that were left behind
        self._given = 0
        self.text = ""
        self.stopped: str | None = None

    def add(self, token: int) -> str:
        """One more token; after a stop string nothing comes any more."""
        if self.stopped is not None:
            return ""
        self._tokens.append(token)
        self._cut(self._behind + self.tokenizer.text(self._tokens)[self._skip :])
        certain = len(self.text) if self.stopped is not None else self._certain(self.text)
        self._leave_behind()
        return self._give(certain)

    def finish(self) -> str:
        """What was held back: the end of the text as it stands."""
        return self._give(len(self.text))

    def _leave_behind(self) -> None:
        """Keep the last tokens alone, where these are seen to say the same without the ones before them."""
        if len(self._tokens) < 4 * NEAR:
            return
        text, tokens = self.tokenizer.text, self._tokens
        done, overlap, rest = text(tokens[:-NEAR]), text(tokens[-2 * NEAR : -NEAR]), text(tokens[-2 * NEAR :])
        whole = text(tokens)
        if overlap and not whole.endswith(BROKEN) and done + rest[len(overlap) :] == whole:
            self._behind += done[self._skip :]
            self._skip = len(overlap) + max(0, self._skip - len(done))
            self._tokens = tokens[-2 * NEAR :]

    def _cut(self, whole: str) -> None:
        """Up to the stop string that is complete first, if one is there now; where tokens meet plays no part."""
        places = [(whole.find(text, self._given), text) for text in self.stop]
        found = [(place + len(text), place, text) for place, text in places if place >= 0]
        if found:
            _, place, self.stopped = min(found)
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
