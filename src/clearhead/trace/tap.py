"""`tap`: the one word that makes an intermediate value visible.

`weights = tap("weights", weights)` is the identity unless a Recorder is active in this thread, and nothing at all
while the code is being compiled. The active recorder lives in a `threading.local`: Dynamo refuses a ContextVar.
"""

import threading
from typing import Protocol

import torch
from torch import Tensor


class Visitor(Protocol):
    def visit(self, name: str, value: Tensor) -> Tensor: ...


class _Active(threading.local):
    recorder: Visitor | None = None


_active = _Active()


def tap(name: str, value: Tensor) -> Tensor:
    """Show `value` to this thread's recorder, if there is one; return it, or what the recorder puts in its place."""
    if torch.compiler.is_compiling():
        return value
    recorder = _active.recorder
    return value if recorder is None else recorder.visit(name, value)


def recording() -> bool:
    """Whether a recorder is active in this thread. Layers ask it to choose the reference path."""
    return not torch.compiler.is_compiling() and _active.recorder is not None


def activate(recorder: Visitor | None) -> Visitor | None:
    """Make `recorder` the active one of this thread and return the one before it."""
    before, _active.recorder = _active.recorder, recorder
    return before
