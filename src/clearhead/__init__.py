"""clearhead: Transformers that you can train, run and see through.

`create` makes a model with random weights, `load` one with trained ones, `record` shows every step of a pass by name;
`generate`, `translate` and `complete` write, `fill`, `classify` and `answer` judge, `train` trains, `attention` draws.
"""

from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import train
from .errors import ClearheadError
from .models import create, list_models
from .runs import load, save, tokenizer
from .tasks import answer, classify, complete, embed, fill, generate, record, similar, translate
from .trace import Recorder, Trace

if TYPE_CHECKING:
    from .analyse.plot import attention

__version__ = "0.1.0"
__all__ = [
    "ClearheadError",
    "Recorder",
    "Trace",
    "answer",
    "attention",
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
    "train",
    "translate",
]


class _Train(ModuleType):
    """`clearhead.train` is a package of the house, and what the command of that name does: a package can be called."""

    def __call__(self, what: Any, *data: str, **options: Any) -> Any:
        from .recipes.start import train as start

        return start(what, *data, **options)


train.__class__ = _Train  # pyright: ignore[reportAttributeAccessIssue]


def __getattr__(name: str) -> Any:
    """`attention` draws, and is fetched when it is asked for: what only computes does not wait for it."""
    if name != "attention":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from .analyse.plot import attention

    return attention
