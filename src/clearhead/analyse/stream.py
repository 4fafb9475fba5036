"""The residual stream as a trace holds it: what comes into the first block, and what comes out of each."""

from collections.abc import Mapping

from torch import Tensor

from ..errors import ClearheadError
from ..layers import PostNormBlock, Stack
from ..models import Model


def stack_of(model: Model, name: str | None = None) -> tuple[str, Stack]:
    """The stack that this model answers from: the decoder where there is one; or the one that is named."""
    found = {kind: part for kind in ("decoder", "encoder") if isinstance(part := getattr(model, kind, None), Stack)}
    if name is None:
        name = next(iter(found))
    if name not in found:
        raise ClearheadError(f"a {model.family} model has no {name}: it has {' and '.join(found)}")
    return name, found[name]


def stream_sites(model: Model, stack: str | None = None) -> list[str]:
    """The sites of the stream: the first block's input, then the output of every block."""
    name, blocks = stack_of(model, stack)
    last = len(blocks.blocks) - 1
    post = isinstance(blocks.blocks[last], PostNormBlock)
    end = f"{name}.blocks.{last}.{'feed_forward_norm.normed' if post else 'after_feed_forward'}"
    return [*(f"{name}.blocks.{layer}.input" for layer in range(last + 1)), end]


def residual_stream(model: Model, trace: Mapping[str, Tensor], stack: str | None = None) -> list[Tensor]:
    """(B,L,width) before the first block, and behind each of them; before the stack's last norm, where it has one."""
    sites = stream_sites(model, stack)
    for site in sites:
        if site not in trace:
            raise ClearheadError(f"the trace lacks '{site}': record {' and '.join(_globs(sites))}")
    return [trace[site] for site in sites]


def _globs(sites: list[str]) -> list[str]:
    return [repr(sites[0].replace(".0.", ".*.")), repr(sites[-1])]
