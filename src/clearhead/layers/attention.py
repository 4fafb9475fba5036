"""Multi-head attention as modules: self-attention (q, k, v from one sequence) and cross-attention (k, v from another).

Both project, split the projection into heads, call the one `ops.attention`, join the heads and project back:
Concat(head_1 .. head_h) W_O. q, k and v are views of one product: nothing is copied on the way to the kernel.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ClearheadError
from ..ops import PATHS, Path, attention
from ..ops.joined_qkv import joined_qkv, split_heads
from ..ops.kernels import asked_for, has_kernel
from ..trace import recording, tap
from .cache import Cache
from .embeddings import working_type
from .linear import Linear, linear, times
from .positions import GridRotary, Rotary

SHORT, LONGER = 64, 128  # tokens that the kernel for short rows holds; the second no card has seen yet


@dataclass(frozen=True)
class Heads:
    """How a width is divided: `count` query heads over `kv_count` key/value heads, `key` and `value` features wide."""

    count: int
    key: int
    value: int
    kv_count: int

    @classmethod
    def of(
        cls, width: int, count: int, *, key: int | None = None, value: int | None = None, kv_count: int | None = None
    ) -> "Heads":
        key = key or width // count
        return cls(count, key, value or key, kv_count or count)


class _Attention(nn.Module):
    """What both kinds share: the heads, the output projection, and the call of the one attention function."""

    def __init__(self, width: int, heads: Heads, bias: bool, scale: float | None, dropout: float) -> None:
        super().__init__()
        self.heads, self.scale, self.dropout = heads, scale, dropout
        self.out = Linear(heads.count * heads.value, width, bias)
        self.path: Path = "fused"

    @property
    def factor(self) -> float:
        """What scores are multiplied with, where a kernel wants to be told."""
        return self.heads.key**-0.5 if self.scale is None else self.scale

    def attend(self, query: Tensor, key: Tensor, value: Tensor, **how: Tensor | bool | int | None) -> Tensor:
        """(B,H,L,d_k), (B,G,M,d_k), (B,G,M,d_v) -> (B,L,H*d_v), the heads side by side."""
        heads_BHLd = attention(
            query,
            key,
            value,
            scale=self.scale,
            dropout=self.dropout if self.training else 0.0,
            path="reference" if recording() else self.path,
            **how,  # pyright: ignore[reportArgumentType]
        )
        return tap("concat", heads_BHLd.transpose(1, 2).flatten(2))

    def projected(self, concat: Tensor, scale: float = 1.0) -> Tensor:
        return tap("projected", times(self.out, concat, scale))


def some_outputs(layer: Any, x: Tensor, outputs: slice) -> Tensor:
    """What a layer gives for some of its outputs alone; one that stands in for nn.Linear has a `part` for that."""
    if not isinstance(layer, nn.Linear):
        return layer.part(x, outputs)
    return linear(x, layer.weight[outputs], None if layer.bias is None else layer.bias[outputs])


class SelfAttention(_Attention):
    """Queries, keys and values from one sequence, by one product with W_Q, W_K, W_V side by side."""

    def __init__(
        self,
        width: int,
        heads: Heads,
        *,
        bias: bool = True,
        qkv_bias: bool | None = None,
        causal: bool = False,
        window: int | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
        rotary: Rotary | GridRotary | None = None,
    ) -> None:
        super().__init__(width, heads, bias, scale, dropout)
        self.causal, self.window, self.rotary = causal, window, rotary
        self.sizes = (heads.count * heads.key, heads.kv_count * heads.key, heads.kv_count * heads.value)
        self.qkv = Linear(width, sum(self.sizes), bias if qkv_bias is None else qkv_bias)

    def forward(self, x: Tensor, *how: Any, scale: float = 1.0, **named: Any) -> Tensor:
        """x (B,L,width) -> the same, or (B,rows,width): what `concat` says of these, times W_O (and `scale`)."""
        return self.projected(self.concat(x, *how, **named), scale)

    def concat(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        positions: Tensor | None = None,
        past: tuple[Cache, int] | None = None,
        rows: int | None = None,
    ) -> Tensor:
        """x (B,L,width) -> (B,L,H*d_v), the heads side by side; with `rows` for the first tokens alone.

        `past` is a cache and this layer's number in it: new keys and values join it and `mask` must be the cache's.
        """
        if rows is None and past is None and mask is None and bias is None and self._is_short(x):
            table, places = (None, None) if self.rotary is None else (self.rotary.table, positions)
            given = self.qkv(x), self.heads.count, self.factor, table, places
            return torch.ops.clearhead.short_attention(*given)
        query, key, value = self._project(x, rows)
        if self.rotary is not None:
            asking = positions if positions is None or rows is None else positions[:, :rows]
            query, key = self.rotary(query, asking), self.rotary(key, positions)
        query, key, value = tap("query", query), tap("key", key), tap("value", value)
        if past is None:
            return self.attend(query, key, value, mask=mask, bias=bias, causal=self.causal, window=self.window)
        cache, layer = past
        if bias is None and self._takes_one_token(x, cache):
            stores = cache.keys[layer], cache.values[layer], cache.lengths
            heads_BHLd = torch.ops.clearhead.one_token_attention(query, key, value, *stores, self.factor)
            return heads_BHLd.transpose(1, 2).flatten(2)
        seen = cache.extend(layer, key, value)
        if cache.fresh:  # padding stands behind every true token, where none of them looks
            return self.attend(query, key, value, bias=bias, causal=True, window=self.window)
        if self.window is not None:
            mask = cache.mask(x.shape[1], self.window)
        return self.attend(query, *seen, mask=mask, bias=bias)

    def _is_short(self, x: Tensor) -> bool:
        """Whether these are short rows in bf16 on a GPU, patches of small pictures: there is a kernel for them."""
        heads = self.heads
        if not x.is_cuda or self.causal or self.window is not None or self.path != "fused":
            return False
        if x.shape[1] > (LONGER if asked_for() else SHORT):
            return False
        alike = heads.count == heads.kv_count and heads.key == heads.value and heads.key in (32, 64, 128)
        known = self.rotary is None or isinstance(self.rotary, GridRotary)
        usual = alike and known and type(self.qkv) is Linear and not (self.dropout and self.training)
        return usual and working_type(x) == torch.bfloat16 and not recording() and has_kernel("short_attention")

    def _takes_one_token(self, x: Tensor, cache: Cache) -> bool:
        """Whether this is a step of static shapes on a GPU, for which there is a kernel of our own."""
        return (
            x.is_cuda
            and x.shape[1] == 1
            and cache.bucket is not None
            and self.window is None
            and self.path == "fused"
            and not torch.is_grad_enabled()
            and not recording()
            and has_kernel("one_token_kernel")
        )

    def _goes_back_in_one_kernel(self, x: Tensor) -> bool:
        """Whether the gradients of the product of all three and of its bias are made by a kernel of our own.

        Not where queries and keys are turned: the compiler has one kernel for turning back and putting together.
        """
        return (
            x.is_cuda
            and torch.compiler.is_compiling()
            and torch.is_grad_enabled()
            and self.rotary is None
            and type(self.qkv) is Linear
            and self.qkv.bias is not None
            and self.qkv.bias.requires_grad
            and self.qkv.weight.requires_grad
            and has_kernel("qkv_kernel")
        )

    def _project(self, x: Tensor, rows: int | None) -> tuple[Tensor, Tensor, Tensor]:
        heads, sizes = self.heads, self.sizes
        if rows is None and self._goes_back_in_one_kernel(x):
            counts = heads.count, heads.kv_count, heads.kv_count
            return joined_qkv(x, self.qkv.weight, self.qkv.bias, sizes, counts)
        if rows is None:
            query, key, value = self.qkv(x).split(sizes, -1)
        else:
            query = some_outputs(self.qkv, x[:, :rows], slice(sizes[0]))
            key, value = some_outputs(self.qkv, x, slice(sizes[0], None)).split(sizes[1:], -1)
        return split_heads(query, heads.count), split_heads(key, heads.kv_count), split_heads(value, heads.kv_count)


class CrossAttention(_Attention):
    """Queries from one sequence (the decoder's), keys and values from another (the encoder's): target x source.

    `key_width` and `value_width` are the widths of what keys and values are made from, where they differ from `width`.
    """

    def __init__(
        self,
        width: int,
        heads: Heads,
        *,
        key_width: int | None = None,
        value_width: int | None = None,
        bias: bool = True,
        scale: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(width, heads, bias, scale, dropout)
        self.query = Linear(width, heads.count * heads.key, bias)
        self.key = Linear(key_width or width, heads.kv_count * heads.key, bias)
        self.value = Linear(value_width or width, heads.kv_count * heads.value, bias)

    def remember(self, keys: Tensor, values: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Keys and values of the other sequence (B,M,width) as heads: computed once, asked many times."""
        values = keys if values is None else values
        return split_heads(self.key(keys), self.heads.kv_count), split_heads(self.value(values), self.heads.kv_count)

    def forward(
        self, x: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """x (B,L,width) asks a memory that `remember` made: (B,L,width).

        A memory of fewer rows is asked by as many rows of x each, one behind the other: beams share their source.
        """
        asking = x.reshape(len(memory[0]), -1, x.shape[-1])
        query = tap("query", split_heads(self.query(asking), self.heads.count))
        key, value = tap("key", memory[0]), tap("value", memory[1])
        return self.projected(self.attend(query, key, value, mask=mask, causal=causal)).view_as(x)


def use_path(model: nn.Module, path: Path) -> nn.Module:
    """Choose the attention path of every layer that has one; with `reference` nothing is shortened or fused."""
    if path not in PATHS:
        raise ClearheadError(f"there is no attention path '{path}': use {' or '.join(PATHS)}")
    for module in model.modules():
        if hasattr(module, "path"):
            setattr(module, "path", path)  # noqa: B010 (nn.Module types its attributes as modules)
    return model
