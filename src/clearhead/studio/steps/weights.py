"""Weights as matrices (inputs, outputs), so that X W is the product that a layer computes.

Names are the module's own, without the packing: `...attention.query` is a head's W_Q wherever it is stored, `.bias`
behind a name its bias as one row, `...feed_forward.gate` and `.up` the halves of a gated layer's one matrix.
"""

from typing import Any

from torch import Tensor, nn

from ...errors import ClearheadError, quoted
from ...layers import (
    CrossAttention,
    FixedPositions,
    GatedFeedForward,
    LayerNorm,
    LearnedPositions,
    RelativeBias,
    RMSNorm,
    SelfAttention,
    TokenEmbedding,
)
from ...models import Model
from .reading import Readable, of_heads, of_matrix

PARTS = ("query", "key", "value")
HALVES = ("gate", "up")
AS_STORED = (TokenEmbedding, LearnedPositions, RelativeBias, LayerNorm, RMSNorm)


class Weights:
    """The weights of a model by their names, as views."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._names = {weight.data_ptr(): name for name, weight in model.named_parameters()}

    def find(self, name: str) -> Readable:
        path, field = (name.removesuffix(".bias"), "bias") if name.endswith(".bias") else (name, "weight")
        layer = self.layer(path)
        value = _value(layer, field, path)
        source = self._names.get(value.data_ptr(), name)  # a computed table has only the name of its module
        owner, _, part = path.rpartition(".")
        around = self.model.get_submodule(owner)
        if isinstance(around, SelfAttention | CrossAttention) and part in PARTS:
            return _of_heads(around, part, value, source)
        if isinstance(around, GatedFeedForward) and part in HALVES:
            value = value.chunk(2)[HALVES.index(part)]
        if value.ndim == 1:
            return of_matrix(value[None], source)
        return of_matrix(value.t() if isinstance(layer, nn.Linear) else value, source)

    def layer(self, path: str) -> Any:
        """The module or parameter that stores what `path` names: for packed parts, the one they are packed in."""
        owner, _, part = path.rpartition(".")
        around = self.model.get_submodule(owner)
        if isinstance(around, SelfAttention) and part in PARTS:
            return around.qkv
        if isinstance(around, GatedFeedForward) and part in HALVES:
            return around.gate_up
        return getattr(around, part) if part else around

    def has_bias(self, path: str) -> bool:
        return getattr(self.layer(path), "bias", None) is not None


def _of_heads(attention: SelfAttention | CrossAttention, part: str, value: Tensor, source: str) -> Readable:
    """Each head's columns of W_Q, W_K or W_V, or of their biases."""
    heads = attention.heads
    if isinstance(attention, SelfAttention):
        value = value.split(attention.sizes)[PARTS.index(part)]
    count = heads.count if part == "query" else heads.kv_count
    split = value.unflatten(0, (count, -1))
    return of_heads(split[:, None] if value.ndim == 1 else split.transpose(-1, -2), source, heads.count // count)


def _value(layer: Any, field: str, path: str) -> Tensor:
    """What is stored; a layer whose numbers are not the ones that it multiplies by, such as 8 bits, is refused."""
    if field == "bias" and isinstance(getattr(layer, "bias", None), Tensor):
        return layer.bias.detach()
    if field == "weight" and isinstance(layer, nn.Parameter):
        return layer.detach()
    if field == "weight" and isinstance(layer, FixedPositions):
        return layer.get_buffer("table")
    if field == "weight" and isinstance(layer, (nn.Linear, *AS_STORED)):
        return layer.weight.detach()
    raise ClearheadError(f"the studio can't read a {field} of {quoted(path)}, a {type(layer).__name__}")
