"""One input to one answer: what the command line, the server and the studio call."""

from .embed import embed
from .record import EXAMPLE_TEXT, prepared, record, row_tokens
from .similar import Match, WordInContext, similar, word_in_context

__all__ = [
    "EXAMPLE_TEXT",
    "Match",
    "WordInContext",
    "embed",
    "prepared",
    "record",
    "row_tokens",
    "similar",
    "word_in_context",
]
