"""Attention, once: softmax(Q K^T / sqrt(d_k)) V (Vaswani et al. 2017), as a pure function with two paths.

Shapes: B batch, H query heads, G key/value heads (G divides H), L queries, M keys, d_k and d_v widths of a head.
The *reference* path writes every step out and taps it. The *fused* path is torch's scaled_dot_product_attention. They
take the same arguments and give the same numbers; the caller names the path, it is never chosen silently.
Rows that may attend to nothing give zeros, not NaN.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..trace import tap
from .masks import band

Path = Literal["fused", "reference"]
PATHS: tuple[Path, ...] = ("fused", "reference")
SHORT = 64  # keys up to which the memory-efficient kernel is the fastest on a GPU, measured
FEW = 256  # keys up to which torch's way back on a CPU is slower in bf16 than in fp32, 7 times for a dozen, measured


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    path: Path = "fused",
) -> Tensor:
    """query (B,H,L,d_k), key (B,G,M,d_k), value (B,G,M,d_v) -> (B,H,L,d_v).

    mask    bool, broadcastable to (B,H,L,M): True where a query may look
    bias    float, broadcastable to (B,H,L,M): added to the scaled scores
    causal  no query looks past its own position; the last query stands at the last key
    window  a query looks at most `window - 1` positions away, to the left, and to the right unless causal
    scale   1/sqrt(d_k) unless given
    dropout probability of dropping a weight: callers pass 0 outside training
    """
    factor = float(query.shape[-1]) ** -0.5 if scale is None else scale
    run = _reference if path == "reference" else _fused
    return run(query, key, value, mask, bias, causal, window, factor, dropout)


def _reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    causal: bool,
    window: int | None,
    scale: float,
    dropout: float,
) -> Tensor:
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores_BHLM = tap("scores", query @ key.transpose(-2, -1))
    scores_BHLM = tap("scaled", scores_BHLM * scale)
    if bias is not None:
        scores_BHLM = tap("biased", scores_BHLM + bias)
    allowed = _allowed(mask, causal, window, scores_BHLM)
    weights_BHLM = tap("weights", _softmax(scores_BHLM, allowed))
    return tap("output", F.dropout(weights_BHLM, dropout) @ value)


def _softmax(scores: Tensor, allowed: Tensor | None) -> Tensor:
    if allowed is None:
        return scores.softmax(-1)
    masked = tap("masked", scores.masked_fill(~allowed, float("-inf")))
    blind = ~allowed.any(-1, keepdim=True)  # a row of -inf alone would give NaN, in the gradient too
    return masked.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    causal: bool,
    window: int | None,
    scale: float,
    dropout: float,
) -> Tensor:
    if not dropout and _faster_in_fp32(query, key):  # with dropout torch takes no fused kernel
        with torch.autocast("cpu", enabled=False):
            wide = query.float(), key.float(), value.float()
            return _fused(*wide, mask, bias, causal, window, scale, dropout).to(query.dtype)
    square = query.shape[-2] == key.shape[-2]
    plain = mask is None and bias is None and window is None
    grouped = query.shape[1] != key.shape[1]
    if plain and (square or not causal):
        with _kernels(query.is_cuda and not grouped and key.shape[-2] <= SHORT):
            return F.scaled_dot_product_attention(
                query, key, value, is_causal=causal, scale=scale, dropout_p=dropout, enable_gqa=grouped
            )
    allowed = _allowed(mask, causal, window, query, key.shape[-2])
    attn_mask = allowed
    if bias is not None:
        attn_mask = bias.to(query.dtype)
        if allowed is not None:
            attn_mask = attn_mask.masked_fill(~allowed, float("-inf"))
    output = F.scaled_dot_product_attention(
        query, key, value, attn_mask=attn_mask, scale=scale, dropout_p=dropout, enable_gqa=grouped
    )
    if allowed is None:
        return output
    return output.masked_fill(~allowed.any(-1, keepdim=True), 0.0)


def _faster_in_fp32(query: Tensor, key: Tensor) -> bool:
    learning = torch.is_grad_enabled() and query.requires_grad
    return learning and query.device.type == "cpu" and query.dtype == torch.bfloat16 and key.shape[-2] <= FEW


def _kernels(short: bool) -> AbstractContextManager[Any]:
    """Which of torch's kernels may be used: for short sequences the memory-efficient one, else torch's own choice."""
    return sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]) if short else nullcontext()


def _allowed(
    mask: Tensor | None, causal: bool, window: int | None, like: Tensor, keys: int | None = None
) -> Tensor | None:
    """Where a query may look, as one bool tensor; None when it may look anywhere."""
    if not causal and window is None:
        return mask
    shape = band(like.shape[-2], like.shape[-1] if keys is None else keys, causal, window, like.device)
    return shape if mask is None else mask & shape
