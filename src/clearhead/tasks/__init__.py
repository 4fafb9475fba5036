"""One input to one answer: what the command line, the server and the studio call."""

from .complete import Completion, complete
from .embed import embed
from .generate import Continuation, Interrupted, Lesson, generate, teach
from .record import EXAMPLE_TEXT, prepared, record, row_tokens
from .similar import Match, WordInContext, similar, word_in_context
from .translate import Alignment, Translation, translate
from .writer import Writer, writer

__all__ = [
    "EXAMPLE_TEXT",
    "Alignment",
    "Completion",
    "Continuation",
    "Interrupted",
    "Lesson",
    "Match",
    "Translation",
    "WordInContext",
    "Writer",
    "complete",
    "embed",
    "generate",
    "prepared",
    "record",
    "row_tokens",
    "similar",
    "teach",
    "translate",
    "word_in_context",
    "writer",
]
