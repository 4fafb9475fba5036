"""clearhead: Transformers that you can train, run and see through."""

from .errors import ClearheadError
from .models import create, list_models
from .trace import Recorder, Trace

__version__ = "0.1.0"
__all__ = ["ClearheadError", "Recorder", "Trace", "create", "list_models"]
