"""`Recorder`: keeps what the taps of one model show in one thread, and may replace it on the way.

While it is active it hangs forward hooks on the model's modules that say where in the model the pass is; they act for
the recorder's own thread alone and are gone afterwards, also after an exception. Nothing is stored on the modules.
"""

import fnmatch
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ClearheadError, near
from .tap import activate
from .trace import Trace

Replacement = Tensor | Callable[[Tensor], Tensor]


class Recorder:
    """`with Recorder(model, sites=["blocks.*.attention.weights"]) as trace: model(x)` fills `trace`.

    sites      globs of the sites to keep, decided before anything is stored; all by default
    max_bytes  stop keeping when the trace would hold more; what was left out is named in `trace.left_out`
    dtype      floating-point values are kept in this type (their own by default)
    grads      keep the gradient of every kept value too, when a backward pass follows inside the `with`
    replace    site or glob -> tensor or function: what the pass goes on with in place of the computed value
    measure    keep no values, only note in `trace.left_out` the shapes that would be kept
    """

    def __init__(
        self,
        model: nn.Module,
        sites: str | Iterable[str] = "*",
        *,
        max_bytes: int | None = None,
        dtype: torch.dtype | None = None,
        grads: bool = False,
        replace: Mapping[str, Replacement] | None = None,
        measure: bool = False,
    ) -> None:
        self.model = underneath(model)
        self.globs = [sites] if isinstance(sites, str) else list(sites)
        self.max_bytes, self.dtype, self.grads, self.measure = max_bytes, dtype, grads, measure
        self.replace = dict(replace or {})
        self.trace = Trace()
        self._bytes = 0
        self._seen: dict[str, int] = {}
        self._matched: set[str] = set()
        self._path: list[str] = []
        self._handles: list[Any] = []

    def __enter__(self) -> Trace:
        self._thread = threading.get_ident()
        for name, module in self.model.named_modules():
            self._handles.append(module.register_forward_pre_hook(self._entering(name)))
            self._handles.append(module.register_forward_hook(self._leaving, always_call=True))
        self._before = activate(self)
        self._chain = [self, *getattr(self._before, "_chain", ())]
        return self.trace

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        activate(self._before)
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        if kind is None:
            self._check_every_glob_matched()

    def visit(self, name: str, value: Tensor) -> Tensor:
        """Every recorder of this thread whose model is running sees the value; alone, it sees whatever is tapped."""
        for recorder in self._chain:
            if recorder._path or len(self._chain) == 1:
                value = recorder._see(name, value)
        return value

    def _see(self, name: str, value: Tensor) -> Tensor:
        site = ".".join(part for part in (*self._path[-1:], name) if part)
        self._seen[site] = count = self._seen.get(site, 0) + 1
        numbered = f"{site}#{count}"
        value = self._replaced(site, numbered, value)
        if count == 2:
            self._rename_first(site)
        if self._wanted(self.globs, site, numbered):
            self._keep(site if count == 1 else numbered, value)
        return value

    def _entering(self, name: str) -> Callable[..., None]:
        def hook(*_: object) -> None:
            if not torch.compiler.is_compiling() and threading.get_ident() == self._thread:
                self._path.append(name)

        return hook

    def _leaving(self, *_: object) -> None:
        if not torch.compiler.is_compiling() and threading.get_ident() == self._thread:
            self._path.pop()

    def _wanted(self, globs: Iterable[str], site: str, numbered: str) -> bool:
        found = [glob for glob in globs if fnmatch.fnmatchcase(site, glob) or fnmatch.fnmatchcase(numbered, glob)]
        self._matched.update(found)
        return bool(found)

    def _replaced(self, site: str, numbered: str, value: Tensor) -> Tensor:
        for glob, new in self.replace.items():
            if self._wanted([glob], site, numbered):
                new = new(value) if callable(new) else new
                if new.shape != value.shape:
                    raise ClearheadError(
                        f"a replacement for '{site}' must have shape {tuple(value.shape)}, not {tuple(new.shape)}"
                    )
                value = new.to(value.device, value.dtype)
        return value

    def _keep(self, site: str, value: Tensor) -> None:
        dtype = self.dtype if self.dtype is not None and value.is_floating_point() else value.dtype
        size = value.numel() * dtype.itemsize
        if self.measure or (self.max_bytes is not None and self._bytes + size > self.max_bytes):
            self.trace.left_out[site] = tuple(value.shape)
            return
        self._bytes += size
        self.trace.values[site] = value.detach().to("cpu", dtype, copy=True)
        if self.grads and value.requires_grad:
            hook = value.register_hook(lambda grad: self._keep_grad(site, grad.detach().to("cpu", dtype, copy=True)))
            self._handles.append(hook)

    def _keep_grad(self, site: str, grad: Tensor) -> None:
        self.trace.grads[site if site in self.trace.values else f"{site}#1"] = grad

    def _rename_first(self, site: str) -> None:
        """A site that fires twice is told apart: the first firing becomes `#1`."""
        kept: dict[str, Any]
        for kept in (self.trace.values, self.trace.grads, self.trace.left_out):
            if site in kept:
                items = [(f"{site}#1" if name == site else name, value) for name, value in kept.items()]
                kept.clear()
                kept.update(items)

    def _check_every_glob_matched(self) -> None:
        for glob in (*self.globs, *self.replace):
            if glob not in self._matched:
                raise ClearheadError(f"no site matches '{glob}'{near(glob, self._seen)}")


def underneath(model: nn.Module) -> nn.Module:
    """The module under a compiled one: recording runs it as it was written."""
    model = getattr(model, "_orig_mod", model)
    for name, module in model.named_modules():
        if getattr(module, "_compiled_call_impl", None) is not None or hasattr(module, "_orig_mod"):
            raise ClearheadError(
                f"'{name or 'the model'}' was compiled in place, so its taps can't fire: record before compiling"
            )
    return model
