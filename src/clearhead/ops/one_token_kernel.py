"""Attention for one new token of each row, in Triton: its key and value join the cache on the same way.

A program has one row and one head. The compiler's way writes keys, writes values, makes a mask, and starts a kernel
that is made for many queries; this is one kernel, and it reads no slot beyond a row's own end. Importing this file
needs Triton.
"""

# A type checker takes a kernel for a function of Python.
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false

from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor
from torch.library import custom_op

SLOTS, WARPS = 64, 4  # looked at together, and by how many threads: 32 numbers each


@triton.jit
def _look_back(
    query, key, value, keys, values, lengths, answer, scale,
    query_row, query_head, key_row, key_head, value_row, value_head,
    keys_row, keys_slot, keys_head, values_row, values_slot, values_head,
    SEEN: tl.constexpr, SHARED: tl.constexpr, SLOTS: tl.constexpr,
    KEY: tl.constexpr, VALUE: tl.constexpr, KEY_BLOCK: tl.constexpr, VALUE_BLOCK: tl.constexpr,
):  # fmt: skip
    row, head, heads = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    group, length = head // SHARED, tl.load(lengths + row)
    k, v = tl.arange(0, KEY_BLOCK), tl.arange(0, VALUE_BLOCK)
    asked = tl.load(query + row * query_row + head * query_head + k, k < KEY, 0.0).to(tl.float32) * scale
    new_key = tl.load(key + row * key_row + group * key_head + k, k < KEY, 0.0)
    new_value = tl.load(value + row * value_row + group * value_head + v, v < VALUE, 0.0)
    if head % SHARED == 0:
        tl.store(keys + row * keys_row + length * keys_slot + group * keys_head + k, new_key, k < KEY)
        tl.store(values + row * values_row + length * values_slot + group * values_head + v, new_value, v < VALUE)
    # the new token sees itself first, out of registers: what was just stored need not be there yet
    best = tl.sum(asked * new_key.to(tl.float32))
    total, found = 1.0, new_value.to(tl.float32)
    for start in range(0, SEEN, SLOTS):
        if start < length:
            slot = start + tl.arange(0, SLOTS)
            inside = (slot < length)[:, None]
            at = keys + row * keys_row + slot[:, None] * keys_slot + group * keys_head + k[None, :]
            scores = tl.sum(tl.load(at, inside & (k < KEY)[None, :], 0.0).to(tl.float32) * asked[None, :], 1)
            scores = tl.where(slot < length, scores, float("-inf"))
            largest = tl.maximum(best, tl.max(scores, 0))
            weights, less = tl.exp(scores - largest), tl.exp(best - largest)
            at = values + row * values_row + slot[:, None] * values_slot + group * values_head + v[None, :]
            seen = tl.load(at, inside & (v < VALUE)[None, :], 0.0).to(tl.float32)
            found = found * less + tl.sum(weights[:, None] * seen, 0)
            total = total * less + tl.sum(weights, 0)
            best = largest
    tl.store(answer + (row * heads + head) * VALUE + v, (found / total).to(answer.dtype.element_ty), v < VALUE)


@custom_op("clearhead::one_token_attention", mutates_args=("keys", "values"))
def one_token_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Tensor,
    values: Tensor,
    lengths: Tensor,
    scale: float,
    seen: int,
) -> Tensor:
    """query (B,H,1,d), key and value (B,G,1,d); keys and values (B,S,G,d), of which row b has lengths[b] -> (B,H,1,d).

    The new key and value are written behind each row's own end, which must be below `seen`.
    """
    rows, heads, _, width = query.shape
    deep = value.shape[-1]
    answer = torch.empty(rows, heads, 1, deep, dtype=query.dtype, device=query.device)
    strides = [tensor.stride(place) for tensor in (query, key, value) for place in (0, 1)]
    strides += [tensor.stride(place) for tensor in (keys, values) for place in (0, 1, 2)]
    _look_back[(rows, heads)](
        query, key, value, keys, values, lengths, answer, scale, *strides,
        SEEN=seen, SHARED=heads // keys.shape[2], SLOTS=SLOTS, KEY=width, VALUE=deep,
        KEY_BLOCK=triton.next_power_of_2(width), VALUE_BLOCK=triton.next_power_of_2(deep), num_warps=WARPS,
    )  # fmt: skip
    return answer


@one_token_attention.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> Tensor:
    return query.new_empty(*query.shape[:3], value.shape[-1])
