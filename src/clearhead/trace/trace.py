"""`Trace`: what one pass really computed, as a mapping from site to tensor, with save and load."""

import fnmatch
import html
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import ClearheadError, near


@dataclass
class Trace(Mapping[str, Tensor]):
    """Sites in the order they fired. `left_out`: what was not kept, with its shape; `about`: where it is from."""

    values: dict[str, Tensor] = field(default_factory=dict)
    grads: dict[str, Tensor] = field(default_factory=dict)
    left_out: dict[str, tuple[int, ...]] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    output: Any = None

    def __getitem__(self, site: str) -> Tensor:
        try:
            return self.values[site]
        except KeyError:
            why = (
                f"was left out (max_bytes), shape {self.left_out[site]}"
                if site in self.left_out
                else "was not recorded"
            )
            raise KeyError(f"site '{site}' {why}{near(site, self.values)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def matching(self, pattern: str) -> dict[str, Tensor]:
        """The sites that a glob names, in order; none is an error that names near ones."""
        found = {site: value for site, value in self.values.items() if fnmatch.fnmatchcase(site, pattern)}
        if not found:
            raise ClearheadError(f"no recorded site matches '{pattern}'{near(pattern, self.values)}")
        return found

    @property
    def nbytes(self) -> int:
        return sum(value.nbytes for value in self.values.values())

    def save(self, path: str | Path) -> Path:
        """One safetensors file; order, origin and what was left out travel as JSON in its header."""
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        about = {"order": list(self.values), "left_out": self.left_out, "about": self.about}
        tensors = {site: value.contiguous() for site, value in self.values.items()}
        tensors |= {f"grad:{site}": value.contiguous() for site, value in self.grads.items()}
        try:
            save_file(tensors, str(path), metadata={"clearhead_trace": json.dumps(about)})
        except (SafetensorError, OSError) as problem:
            raise ClearheadError(f"the trace can't be written to {path}: {str(problem).splitlines()[0]}") from None
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> "Trace":
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(path), framework="pt") as file:
                about = json.loads((file.metadata() or {})["clearhead_trace"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
                values = {site: tensors[site] for site in about["order"]}
                left_out = {site: tuple(shape) for site, shape in about["left_out"].items()}
                trace = cls(values, {}, left_out, dict(about["about"]))
        except FileNotFoundError:
            raise ClearheadError(f"there is no trace at {path}") from None
        except (SafetensorError, KeyError, ValueError, TypeError, AttributeError, RecursionError, OSError) as problem:
            raise ClearheadError(
                f"{path} is not a trace that clearhead wrote: {str(problem).splitlines()[0]}"
            ) from None
        trace.grads.update((name.removeprefix("grad:"), t) for name, t in tensors.items() if name.startswith("grad:"))
        return trace

    def __repr__(self) -> str:
        head = f"Trace of {self.about.get('model', 'a model')}: {len(self)} sites, {self.nbytes / 1e6:.1f} MB"
        return head + (f", {len(self.left_out)} left out" if self.left_out else "")

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td><code>{html.escape(site)}</code></td><td>{_by(value)}</td><td>{_summary(value)}</td></tr>"
            for site, value in self.values.items()
        )
        head = "<tr><th>site</th><th>shape</th><th>min, mean, max</th></tr>"
        return f"<p>{html.escape(repr(self))}</p><table>{head}{rows}</table>"


def _by(value: Tensor) -> str:
    return " x ".join(map(str, value.shape))


def _summary(value: Tensor) -> str:
    finite = value.float()[torch.isfinite(value.float())]
    return ", ".join(f"{f(finite).item():.3g}" for f in (torch.min, torch.mean, torch.max)) if finite.numel() else "-"
