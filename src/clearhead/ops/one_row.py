"""A whole pre-norm decoder layer for a single row, as one kernel in Triton: how one text is written on a GPU.

A step of one text is nothing but products of a matrix with a vector, and those are nothing but reading the matrix. What
costs time is all between two readings: a launch ends, the next one begins, and the memory stands idle. So one launch
does it all, in five phases, each spread over all programs:

    1  norm, queries, keys and values; the new key and value go straight into the cache
    2  attention of each head over the cache, its slots divided among a few programs
    3  what these found joined, projected, added to the stream
    4  norm, up, activation
    5  down, added to the stream

Between two phases all programs meet. Each asks for its share of the next weights on the way to the meeting: they arrive
while it waits. What others wrote is read past the first cache level (".cg"), which may hold what was there before. The
phases can also be launched one by one: then the end of a launch is the meeting.

The meeting place is one number in memory. Every program adds 1 to it, the first one so much that all together add 2^31:
the sign turns when the last one has come, and all other bits are as before. Nobody resets anything, so the same memory
serves any number of launches, replays of a CUDA graph among them (CUDA's cooperative groups meet in this way too).

Values are rounded where the layers one by one round them; sums are in fp32. Importing this file needs Triton.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false

from dataclasses import dataclass
from functools import cache

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait  # pyright: ignore[reportMissingImports]

PHASES = 5
SLOTS = 512  # so many slots of the cache are on their way before the queries are known; others follow in a loop
CHUNK = tl.constexpr(256)  # columns that the 32 threads of a warp read at once, 16 bytes each
NEGLIGIBLE = tl.constexpr(-1e30)


@dataclass(frozen=True)
class Plan:
    """How a layer is launched.

    programs  at most so many, and at most one for each multiprocessor: all must run at once
    warps     of a program
    splits    among how many programs the slots of one head are divided
    together  one launch with meetings in it, or a launch for each phase
    gathered  the driver promises that all programs run at once, or refuses
    fetched   a layer's later weights set out for the second cache level while its first phase runs
    ahead     the next launch begins, and asks for its weights, before this one ends
    """

    programs: int = 128
    warps: int = 8
    splits: int = 4
    together: bool = True
    gathered: bool = True
    fetched: bool = True
    ahead: bool = False


plan = Plan()


@torch.library.custom_op("clearhead::one_row", mutates_args=("keys", "values"))
def one_row(
    x: Tensor, norm_weight: Tensor, norm_bias: Tensor, qkv_weight: Tensor, qkv_bias: Tensor,
    out_weight: Tensor, out_bias: Tensor, second_weight: Tensor, second_bias: Tensor,
    up_weight: Tensor, up_bias: Tensor, down_weight: Tensor, down_bias: Tensor,
    keys: Tensor, values: Tensor, lengths: Tensor, scale: float, eps: float, activation: str,
) -> Tensor:  # fmt: skip
    """x (1,1,width) -> the same, behind the layer; its key and value join the stores (1,S,heads,d) at slot lengths[0].

    The compiler does not look inside: it would not know how to launch programs that meet, nor where.
    """
    width, ff, heads = x.shape[-1], up_weight.shape[0], keys.shape[2]
    programs, splits = _spread(x.device, heads)
    after, middle, query, hidden = (x.new_empty(size) for size in (x.shape, width, width, ff))
    found, sizes = (x.new_empty(splits * size, dtype=torch.float32) for size in (width, heads))
    meeting = _meeting_place(x.device, qkv_weight.data_ptr())
    together = plan.together and x.is_cuda
    for first, last in [(1, PHASES)] if together else [(phase, phase) for phase in range(1, PHASES + 1)]:
        _layer[(programs,)](
            x, after, norm_weight, norm_bias, qkv_weight, qkv_bias, out_weight, out_bias,
            second_weight, second_bias, up_weight, up_bias, down_weight, down_bias,
            keys, values, lengths, query, found, sizes, middle, hidden, meeting, scale, eps,
            WIDTH=width, FF=ff, HEADS=heads, SPLITS=splits, SLOTS=SLOTS // splits, ACTIVATION=activation,
            PROGRAMS=programs, STEP=plan.warps, FIRST=first, LAST=last, AHEAD=plan.ahead,
            BULK=plan.fetched and _takes_bulk(out_weight, up_weight, down_weight),
            num_warps=plan.warps, launch_cooperative_grid=together and plan.gathered, launch_pdl=plan.ahead,
        )  # fmt: skip
    return after


@one_row.register_fake
def _(x: Tensor, *_: Tensor | float | str) -> Tensor:
    return torch.empty_like(x)


def _spread(device: torch.device, heads: int) -> tuple[int, int]:
    """How many programs there are, and how many of them share a head: a power of two."""
    room = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else plan.programs
    programs = max(heads, min(plan.programs, room))
    return programs, min(plan.splits, 1 << (programs // heads).bit_length() - 1)


def _takes_bulk(*weights: Tensor) -> bool:
    """Whether a single instruction can fetch a program's share of a weight: Hopper has it, for aligned memory."""
    aligned = all(weight.data_ptr() % 16 == 0 for weight in weights)
    return aligned and weights[0].is_cuda and torch.cuda.get_device_capability(weights[0].device) >= (9, 0)


@cache
def _meeting_place(device: torch.device, layer: int) -> Tensor:
    """One for each layer, which its weight's address names, so that two models may run beside each other.

    They are kept for ever: graphs that were captured know where they are.
    """
    return torch.zeros(1, dtype=torch.int32, device=device)


@triton.jit
def _layer(
    x, after, norm_weight, norm_bias, qkv_weight, qkv_bias, out_weight, out_bias,
    second_weight, second_bias, up_weight, up_bias, down_weight, down_bias,
    keys, values, lengths, query, found, sizes, middle, hidden, meeting, scale, eps,
    WIDTH: tl.constexpr, FF: tl.constexpr, HEADS: tl.constexpr, SPLITS: tl.constexpr, SLOTS: tl.constexpr,
    ACTIVATION: tl.constexpr, PROGRAMS: tl.constexpr, STEP: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr,
    AHEAD: tl.constexpr, BULK: tl.constexpr,
):  # fmt: skip
    """The phases from FIRST to LAST. `sign` is that of the number where the programs meet: it turns at each meeting."""
    sign = 0
    if FIRST == 1:
        sign = _ask(
            x, norm_weight, norm_bias, qkv_weight, qkv_bias, keys, values, lengths, query, eps, meeting,
            out_weight, up_weight, down_weight, WIDTH, FF, PROGRAMS, STEP, AHEAD, BULK, LAST > 1,
        )  # fmt: skip
    if FIRST <= 2 and LAST >= 2:
        sign = _attend(
            query, keys, values, lengths, found, sizes, scale, meeting, sign,
            WIDTH, HEADS, SPLITS, SLOTS, PROGRAMS, FIRST < 2, AHEAD,
        )  # fmt: skip
    if FIRST <= 3 and LAST >= 3:
        sign = _project(
            x, found, sizes, out_weight, out_bias, middle, meeting, sign,
            WIDTH, HEADS, SPLITS, PROGRAMS, STEP, FIRST < 3, AHEAD,
        )  # fmt: skip
    if FIRST <= 4 and LAST >= 4:
        sign = _expand(
            middle, second_weight, second_bias, up_weight, up_bias, hidden, eps, meeting, sign,
            WIDTH, FF, ACTIVATION, PROGRAMS, STEP, FIRST < 4, AHEAD,
        )  # fmt: skip
    if LAST == 5:
        _shrink(
            middle, hidden, down_weight, down_bias, after, meeting, sign,
            WIDTH, FF, PROGRAMS, STEP, FIRST < 5, AHEAD,
        )  # fmt: skip


@triton.jit
def _ask(
    x, norm_weight, norm_bias, weight, bias, keys, values, lengths, query, eps, meeting,
    out_weight, up_weight, down_weight, WIDTH: tl.constexpr, FF: tl.constexpr, PROGRAMS: tl.constexpr,
    STEP: tl.constexpr, AHEAD: tl.constexpr, BULK: tl.constexpr, MORE: tl.constexpr,
):  # fmt: skip
    """Phase 1: q, k and v. In the cache a slot's keys are one row of WIDTH, as they come out of the product."""
    tiles, added = _tiles(weight, 3 * WIDTH, WIDTH, PROGRAMS, STEP), _own(bias, 3 * WIDTH, PROGRAMS, STEP)
    factor, shift = _vector(norm_weight, WIDTH), _vector(norm_bias, WIDTH)
    if BULK:
        _fetch(out_weight, WIDTH, WIDTH, PROGRAMS)
        _fetch(up_weight, FF, WIDTH, PROGRAMS)
        _fetch(down_weight, WIDTH, FF, PROGRAMS)
    sign = _wait(meeting, 0, False, AHEAD)
    if MORE:
        sign = tl.load(meeting, volatile=True)  # it can't turn before this program has come to the first meeting
    slot = _length(lengths) * WIDTH
    normed = _normed(_passed(x, WIDTH), factor, shift, eps, WIDTH).to(x.dtype.element_ty)
    for block in tl.static_range(len(tiles)):
        rows, there = _rows(block, 3 * WIDTH, PROGRAMS, STEP)
        result = _product(tiles[block], normed, added[block]).to(x.dtype.element_ty)
        tl.store(query + rows, result, mask=there & (rows < WIDTH))
        tl.store(keys + slot + rows - WIDTH, result, mask=there & (rows >= WIDTH) & (rows < 2 * WIDTH))
        tl.store(values + slot + rows - 2 * WIDTH, result, mask=there & (rows >= 2 * WIDTH))
    return sign


@triton.jit
def _attend(
    query, keys, values, lengths, found, sizes, scale, meeting, sign,
    WIDTH: tl.constexpr, HEADS: tl.constexpr, SPLITS: tl.constexpr, SLOTS: tl.constexpr, PROGRAMS: tl.constexpr,
    MEET: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Phase 2: of a head's slots a program takes every SPLITS-th. What it finds, and the logarithm of what that weighs.

    Slots of earlier tokens are asked for before the meeting, the new one is put in its place behind it.
    """
    HEAD: tl.constexpr = WIDTH // HEADS
    head, split = tl.program_id(0) % HEADS, tl.program_id(0) // HEADS
    length = _length(lengths)
    if split >= SPLITS:
        length = -1  # this program is here for the meetings alone
    features = head * HEAD + tl.arange(0, HEAD)
    slots = split + SPLITS * tl.arange(0, SLOTS)
    _come(meeting, PROGRAMS, MEET)
    key = _slots(keys, slots, features, slots < length, WIDTH)
    value = _slots(values, slots, features, slots < length, WIDTH)
    sign = _wait(meeting, sign, MEET, AHEAD)
    if length >= 0:
        asking = tl.load(query + features, cache_modifier=".cg").to(tl.float32) * scale
        new = (slots == length)[:, None]
        key = tl.where(new, tl.load(keys + length * WIDTH + features, cache_modifier=".cg")[None, :], key)
        value = tl.where(new, tl.load(values + length * WIDTH + features, cache_modifier=".cg")[None, :], value)
        top, total, answer = _answered(asking, key, value, slots <= length, NEGLIGIBLE, 0.0, tl.zeros_like(asking))
        start = SPLITS * SLOTS
        while start <= length:
            later = start + slots
            key = _slots(keys, later, features, later <= length, WIDTH)
            value = _slots(values, later, features, later <= length, WIDTH)
            top, total, answer = _answered(asking, key, value, later <= length, top, total, answer)
            start += SPLITS * SLOTS
        total = tl.maximum(total, 1e-30)  # a short text leaves some programs without a slot
        tl.store(found + split * WIDTH + features, answer / total)
        tl.store(sizes + split * HEADS + head, top + tl.log(total))
    return sign


@triton.jit
def _project(
    x, found, sizes, weight, bias, middle, meeting, sign,
    WIDTH: tl.constexpr, HEADS: tl.constexpr, SPLITS: tl.constexpr, PROGRAMS: tl.constexpr, STEP: tl.constexpr,
    MEET: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Phase 3: the heads' output, projected, and the stream."""
    _come(meeting, PROGRAMS, MEET)
    tiles, added = _tiles(weight, WIDTH, WIDTH, PROGRAMS, STEP), _own(bias, WIDTH, PROGRAMS, STEP)
    stream = _own(x, WIDTH, PROGRAMS, STEP)
    sign = _wait(meeting, sign, MEET, AHEAD)
    concat = _joined(found, sizes, WIDTH, HEADS, SPLITS).to(x.dtype.element_ty)
    for block in tl.static_range(len(tiles)):
        rows, there = _rows(block, WIDTH, PROGRAMS, STEP)
        change = _product(tiles[block], concat, added[block]).to(x.dtype.element_ty)
        tl.store(middle + rows, stream[block].to(tl.float32) + change.to(tl.float32), mask=there)
    return sign


@triton.jit
def _expand(
    middle, norm_weight, norm_bias, weight, bias, hidden, eps, meeting, sign,
    WIDTH: tl.constexpr, FF: tl.constexpr, ACTIVATION: tl.constexpr, PROGRAMS: tl.constexpr, STEP: tl.constexpr,
    MEET: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Phase 4: the feed-forward layer's features."""
    _come(meeting, PROGRAMS, MEET)
    tiles, added = _tiles(weight, FF, WIDTH, PROGRAMS, STEP), _own(bias, FF, PROGRAMS, STEP)
    factor, shift = _vector(norm_weight, WIDTH), _vector(norm_bias, WIDTH)
    sign = _wait(meeting, sign, MEET, AHEAD)
    normed = _normed(_passed(middle, WIDTH), factor, shift, eps, WIDTH).to(middle.dtype.element_ty)
    for block in tl.static_range(len(tiles)):
        rows, there = _rows(block, FF, PROGRAMS, STEP)
        result = _product(tiles[block], normed, added[block]).to(middle.dtype.element_ty)
        tl.store(hidden + rows, _activated(result.to(tl.float32), ACTIVATION), mask=there)
    return sign


@triton.jit
def _shrink(
    middle, hidden, weight, bias, after, meeting, sign,
    WIDTH: tl.constexpr, FF: tl.constexpr, PROGRAMS: tl.constexpr, STEP: tl.constexpr,
    MEET: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Phase 5: back to the stream. Its rows are those that this program wrote in phase 3: they needn't be met for."""
    _come(meeting, PROGRAMS, MEET)
    tiles, added = _tiles(weight, WIDTH, FF, PROGRAMS, STEP), _own(bias, WIDTH, PROGRAMS, STEP)
    stream = _own(middle, WIDTH, PROGRAMS, STEP)
    _wait(meeting, sign, MEET, AHEAD)
    wide = _passed(hidden, FF)
    for block in tl.static_range(len(tiles)):
        rows, there = _rows(block, WIDTH, PROGRAMS, STEP)
        change = _product(tiles[block], wide, added[block]).to(middle.dtype.element_ty)
        tl.store(after + rows, stream[block].to(tl.float32) + change.to(tl.float32), mask=there)


@triton.jit
def _come(meeting, PROGRAMS: tl.constexpr, MEET: tl.constexpr):
    """To a meeting, with all that this program wrote: one thread speaks for it, when the others are done."""
    REST: tl.constexpr = 2147483647 - PROGRAMS + 2
    if MEET:
        tl.debug_barrier()
        tl.atomic_add(meeting, tl.where(tl.program_id(0) == 0, REST, 1), sem="release")


@triton.jit
def _wait(meeting, sign, MEET: tl.constexpr, AHEAD: tl.constexpr):
    """For all of the phase before: until the last has come, or until its launch ends. The sign from now on."""
    if MEET:
        while (tl.atomic_add(meeting, 0, sem="acquire") ^ sign) >= 0:
            pass
        sign = ~sign
    elif AHEAD:
        gdc_wait()
        gdc_launch_dependents()
    return sign


@triton.jit
def _fetch(weight, N: tl.constexpr, K: tl.constexpr, PROGRAMS: tl.constexpr):
    """Ask for this program's rows of a weight (N,K), to be in the second cache level when their phase comes."""
    SHARE: tl.constexpr = triton.cdiv(N, PROGRAMS)
    first = tl.program_id(0) * SHARE
    size = tl.maximum(tl.minimum(SHARE, N - first), 0) * (K * weight.dtype.element_ty.primitive_bitwidth // 8)
    tl.inline_asm_elementwise(
        """{
        .reg .pred mine;
        .reg .b32 thread;
        mov.u32 thread, %tid.x;
        setp.eq.u32 mine, thread, 0;
        setp.ne.and.u32 mine, $2, 0, mine;
        @mine cp.async.bulk.prefetch.L2.global [$1], $2;
        mov.u32 $0, 0;
        }""",
        "=r,l,r",
        [weight + first * K, size],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def _length(lengths):
    """How many tokens the row has: the new one's slot."""
    return tl.load(lengths, cache_modifier=".cg").to(tl.int32)


@triton.jit
def _rows(block, N: tl.constexpr, PROGRAMS: tl.constexpr, STEP: tl.constexpr):
    """A block of this program's share of N rows: their numbers, and which of them there are."""
    SHARE: tl.constexpr = triton.cdiv(N, PROGRAMS)
    inside = block * STEP + tl.arange(0, STEP)
    rows = tl.program_id(0) * SHARE + inside
    return rows, (inside < SHARE) & (rows < N)


@triton.jit
def _own(pointer, N: tl.constexpr, PROGRAMS: tl.constexpr, STEP: tl.constexpr):
    """Of N numbers those of this program's rows, block by block."""
    blocks = ()
    for block in tl.static_range(triton.cdiv(triton.cdiv(N, PROGRAMS), STEP)):
        rows, there = _rows(block, N, PROGRAMS, STEP)
        blocks += (tl.load(pointer + rows, mask=there, other=0.0, cache_modifier=".cg"),)
    return blocks


@triton.jit
def _tiles(weight, N: tl.constexpr, K: tl.constexpr, PROGRAMS: tl.constexpr, STEP: tl.constexpr):
    """This program's rows of a weight (N,K), block by block, all asked for at once. A row is with one warp."""
    blocks, columns = (), _places(K)
    for block in tl.static_range(triton.cdiv(triton.cdiv(N, PROGRAMS), STEP)):
        rows, there = _rows(block, N, PROGRAMS, STEP)
        at = rows[:, None, None] * K + columns[None, :, :]
        mask = there[:, None, None] & (columns < K)[None, :, :]
        blocks += (tl.load(weight + at, mask=mask, other=0.0, eviction_policy="evict_first"),)
    return blocks


@triton.jit
def _places(SIZE: tl.constexpr):
    """0, 1, 2 ... in rows of CHUNK, a power of two of rows that holds SIZE numbers."""
    ROOM: tl.constexpr = triton.next_power_of_2(SIZE)
    ROW: tl.constexpr = min(CHUNK, ROOM)
    return tl.arange(0, ROOM // ROW)[:, None] * ROW + tl.arange(0, ROW)[None, :]


@triton.jit
def _vector(pointer, SIZE: tl.constexpr):
    """A parameter of SIZE numbers, zeros behind them."""
    places = _places(SIZE)
    return tl.load(pointer + places, mask=places < SIZE, other=0.0).to(tl.float32)


@triton.jit
def _passed(pointer, SIZE: tl.constexpr):
    """SIZE numbers that other programs wrote, zeros behind them."""
    places = _places(SIZE)
    return tl.load(pointer + places, mask=places < SIZE, other=0.0, cache_modifier=".cg")


@triton.jit
def _slots(store, slots, features, mask, WIDTH: tl.constexpr):
    """Keys or values of one head in some slots."""
    at = slots[:, None] * WIDTH + features[None, :]
    return tl.load(store + at, mask=mask[:, None], other=0.0, cache_modifier=".cg")


@triton.jit
def _normed(x, factor, shift, eps, WIDTH: tl.constexpr):
    """Layer norm, in fp32. Every program does it for itself."""
    x = x.to(tl.float32)
    centred = tl.where(_places(WIDTH) < WIDTH, x - tl.sum(x) / WIDTH, 0.0)
    return centred * tl.rsqrt(tl.sum(centred * centred) / WIDTH + eps) * factor + shift


@triton.jit
def _product(tile, vector, added):
    """Rows of a weight times a vector, plus their biases, in fp32."""
    products = tile.to(tl.float32) * vector.to(tl.float32)[None, :, :]
    return tl.sum(tl.sum(products, 1), 1) + added.to(tl.float32)


@triton.jit
def _answered(asking, key, value, allowed, top, total, answer):
    """A few slots more: the largest score so far, the sum of exp(score - largest), and the values summed with that."""
    scores = tl.where(allowed, tl.sum(key.to(tl.float32) * asking[None, :], 1), float("-inf"))
    largest = tl.maximum(top, tl.max(scores))
    weights, before = tl.exp(scores - largest), tl.exp(top - largest)
    answer = answer * before + tl.sum(weights[:, None] * value.to(tl.float32), 0)
    return largest, total * before + tl.sum(weights), answer


@triton.jit
def _joined(found, sizes, WIDTH: tl.constexpr, HEADS: tl.constexpr, SPLITS: tl.constexpr):
    """What the programs of each head found, by what it weighs: the heads side by side, as `_places` lays them out."""
    HEAD: tl.constexpr = WIDTH // HEADS
    ALL: tl.constexpr = triton.next_power_of_2(HEADS)
    ROW: tl.constexpr = min(CHUNK, ALL * HEAD)
    heads, features = tl.arange(0, ALL), tl.arange(0, HEAD)
    at = tl.arange(0, SPLITS)[:, None] * HEADS + heads[None, :]
    there = tl.broadcast_to((heads < HEADS)[None, :], SPLITS, ALL)
    size = tl.load(sizes + at, mask=there, other=0.0, cache_modifier=".cg")
    places = at[:, :, None] * HEAD + features[None, None, :]
    parts = tl.load(found + places, mask=there[:, :, None], other=0.0, cache_modifier=".cg")
    weights = tl.exp(size - tl.max(size, 0)[None, :])
    weights = weights / tl.sum(weights, 0)[None, :]
    return tl.reshape(tl.sum(weights[:, :, None] * parts, 0), [ALL * HEAD // ROW, ROW])


@triton.jit
def _activated(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "gelu-tanh":
        return x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    elif ACTIVATION == "gelu":
        return 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    else:
        tl.static_assert(ACTIVATION == "relu")
        return tl.maximum(x, 0.0)
