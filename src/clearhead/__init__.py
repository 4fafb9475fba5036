"""clearhead: Transformers that you can train, run and see through.

    model = clearhead.create("vit-b16", num_classes=10)   random weights
    model = clearhead.load("runs/my-vit")                 trained ones
    trace = clearhead.record(model, "picture.png")        every step of the pass, by name
"""

from .errors import ClearheadError
from .models import create, list_models
from .runs import load, save, tokenizer
from .tasks import record
from .trace import Recorder, Trace

__version__ = "0.1.0"
__all__ = ["ClearheadError", "Recorder", "Trace", "create", "list_models", "load", "record", "save", "tokenizer"]
