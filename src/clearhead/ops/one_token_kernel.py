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

SLOTS, WARPS = 32, 4  # looked at together, and by how many threads: 16 numbers each


@triton.jit
def _of_slots(store, slot, length, stride, feature, WIDTH: tl.constexpr):
    """What lies in these slots (SLOTS, features); nothing is read beyond the row's end."""
    inside = (slot < length)[:, None] & (feature < WIDTH)[None, :]
    return tl.load(store + slot.to(tl.int64)[:, None] * stride + feature[None, :], inside, 0.0)


@triton.jit
def _look_back(
    query, key, value, keys, values, lengths, answer, scale,
    query_row, query_head, key_row, key_head, value_row, value_head,
    keys_row, keys_slot, keys_head, values_row, values_slot, values_head,
    SHARED: tl.constexpr, SLOTS: tl.constexpr,
    KEY: tl.constexpr, VALUE: tl.constexpr, KEY_BLOCK: tl.constexpr, VALUE_BLOCK: tl.constexpr,
):  # fmt: skip
    row, head, heads = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    group, length = head // SHARED, tl.load(lengths + row).to(tl.int32)
    k, v, slot = tl.arange(0, KEY_BLOCK), tl.arange(0, VALUE_BLOCK), tl.arange(0, SLOTS)
    keys += row * keys_row + group * keys_head
    values += row * values_row + group * values_head
    near_keys = _of_slots(keys, slot, length, keys_slot, k, KEY)
    near_values = _of_slots(values, slot, length, values_slot, v, VALUE)
    asked = tl.load(query + row * query_row + head * query_head + k, k < KEY, 0.0).to(tl.float32) * scale
    new_key = tl.load(key + row * key_row + group * key_head + k, k < KEY, 0.0)
    new_value = tl.load(value + row * value_row + group * value_head + v, v < VALUE, 0.0)
    if head % SHARED == 0:
        tl.store(keys + length.to(tl.int64) * keys_slot + k, new_key, k < KEY)
        tl.store(values + length.to(tl.int64) * values_slot + v, new_value, v < VALUE)
    # the new token's score comes out of registers: what was just stored need not be there yet
    own = tl.sum(asked * new_key.to(tl.float32))
    # each of the SLOTS places keeps a softmax of its own, so that threads need not meet before the end
    best, total = tl.zeros([SLOTS], tl.float32) + own, tl.zeros([SLOTS], tl.float32)
    found = tl.zeros([SLOTS, VALUE_BLOCK], tl.float32)
    start = 0
    while start < length:
        ahead = start + SLOTS + slot  # asked for now, and used a round later
        next_keys = _of_slots(keys, ahead, length, keys_slot, k, KEY)
        next_values = _of_slots(values, ahead, length, values_slot, v, VALUE)
        scores = tl.sum(near_keys.to(tl.float32) * asked[None, :], 1)
        scores = tl.where(start + slot < length, scores, float("-inf"))
        largest = tl.maximum(best, scores)
        weights, less = tl.exp(scores - largest), tl.exp(best - largest)
        found = found * less[:, None] + weights[:, None] * near_values.to(tl.float32)
        total = total * less + weights
        best, near_keys, near_values = largest, next_keys, next_values
        start += SLOTS
    top = tl.max(best, 0)
    shares, own = tl.exp(best - top), tl.exp(own - top)
    total, found = tl.sum(total * shares) + own, tl.sum(found * shares[:, None], 0) + own * new_value.to(tl.float32)
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
) -> Tensor:
    """query (B,H,1,d), key and value (B,G,1,d); keys and values (B,S,G,d), of which row b has lengths[b] -> (B,H,1,d).

    The new key and value are written behind each row's own end, which must be below S.
    """
    rows, heads, _, width = query.shape
    deep = value.shape[-1]
    answer = torch.empty(rows, heads, 1, deep, dtype=query.dtype, device=query.device)
    strides = [tensor.stride(place) for tensor in (query, key, value) for place in (0, 1)]
    strides += [tensor.stride(place) for tensor in (keys, values) for place in (0, 1, 2)]
    _look_back[(rows, heads)](
        query, key, value, keys, values, lengths, answer, scale, *strides,
        SHARED=heads // keys.shape[2], SLOTS=SLOTS, KEY=width, VALUE=deep,
        KEY_BLOCK=triton.next_power_of_2(width), VALUE_BLOCK=triton.next_power_of_2(deep), num_warps=WARPS,
    )  # fmt: skip
    return answer


@one_token_attention.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> Tensor:
    return query.new_empty(*query.shape[:3], value.shape[-1])
