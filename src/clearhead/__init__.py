"""clearhead: Transformers that you can train, run and see through.

`create` makes a model with random weights, `load` one with trained ones, `record` shows every step of a pass by name;
`generate`, `translate` and `complete` write, `fill`, `classify` and `answer` judge.
"""

from .errors import ClearheadError
from .models import create, list_models
from .runs import load, save, tokenizer
from .tasks import answer, classify, complete, embed, fill, generate, record, similar, translate
from .trace import Recorder, Trace

__version__ = "0.1.0"
__all__ = [
    "ClearheadError",
    "Recorder",
    "Trace",
    "answer",
    "classify",
    "complete",
    "create",
    "embed",
    "fill",
    "generate",
    "list_models",
    "load",
    "record",
    "save",
    "similar",
    "tokenizer",
    "translate",
]
