"""Which attention a pass has: of the encoder, of the decoder, and of the decoder to the encoder."""

import re

from ..models import Model
from ..trace import Trace
from .schema import AttentionKind, Axis

WEIGHTS = re.compile(r"(encoder|decoder)\.blocks\.(\d+)\.(attention|cross)\.weights")


def attention_sites(trace: Trace) -> dict[str, dict[int, str]]:
    """For each kind its sites by layer, those that were left out too."""
    found: dict[str, dict[int, str]] = {}
    for site in (*trace.values, *trace.left_out):
        if match := WEIGHTS.fullmatch(site):
            stack, layer, part = match.groups()
            found.setdefault("cross" if part == "cross" else stack, {})[int(layer)] = site
    return {kind: found[kind] for kind in ("encoder", "decoder", "cross") if kind in found}


def attention_kinds(model: Model, trace: Trace) -> list[AttentionKind]:
    kinds = []
    for kind, sites in attention_sites(trace).items():
        _, heads, rows, columns = _shape(trace, sites[min(sites)])
        looks, looked_at = _axes(model, kind)
        kinds.append(
            AttentionKind(
                kind=kind,  # pyright: ignore[reportArgumentType]
                layers=max(sites) + 1,
                heads=heads,
                rows=Axis(of=looks, size=rows),  # pyright: ignore[reportArgumentType]
                columns=Axis(of=looked_at, size=columns),  # pyright: ignore[reportArgumentType]
            )
        )
    return kinds


def _shape(trace: Trace, site: str) -> tuple[int, ...]:
    return tuple(trace.values[site].shape) if site in trace.values else trace.left_out[site]


def _axes(model: Model, kind: str) -> tuple[str, str]:
    if model.takes != ("source", "target"):
        of = "patches" if model.takes == ("image",) else "tokens"
        return of, of
    return {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source")}[kind]
