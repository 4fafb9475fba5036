"""One input to one answer: what the command line, the server and the studio call."""

from .answer import Span, answer, answers
from .classify import ClassScore, Verdict, classify
from .complete import Completion, complete
from .embed import embed
from .fill import Filled, Guess, fill
from .generate import Continuation, Interrupted, Lesson, generate, teach
from .record import EXAMPLE_TEXT, prepared, record, row_tokens
from .similar import Match, WordInContext, similar, word_in_context
from .translate import Alignment, Translation, translate
from .writer import Writer, writer

__all__ = [
    "EXAMPLE_TEXT",
    "Alignment",
    "ClassScore",
    "Completion",
    "Continuation",
    "Filled",
    "Guess",
    "Interrupted",
    "Lesson",
    "Match",
    "Span",
    "Translation",
    "Verdict",
    "WordInContext",
    "Writer",
    "answer",
    "answers",
    "classify",
    "complete",
    "embed",
    "fill",
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
