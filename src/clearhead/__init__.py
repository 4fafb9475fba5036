"""clearhead: Transformers that you can train, run and see through.

`create` makes a model with random weights, `load` one with trained ones, `record` shows every step of a pass by name;
`generate`, `translate` and `complete` write.
"""

from .errors import ClearheadError
from .models import create, list_models
from .runs import load, save, tokenizer
from .tasks import complete, embed, generate, record, similar, translate
from .trace import Recorder, Trace

__version__ = "0.1.0"
__all__ = [
    "ClearheadError",
    "Recorder",
    "Trace",
    "complete",
    "create",
    "embed",
    "generate",
    "list_models",
    "load",
    "record",
    "save",
    "similar",
    "tokenizer",
    "translate",
]
