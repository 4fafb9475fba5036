"""All layers of a pre-norm decoder for a single row, as one kernel in Triton: how one text is written on a GPU.

A step of one text is nothing but products of a matrix with a vector, and those are nothing but reading the matrix. What
costs time is all between two readings: a launch ends, the next one begins, and the memory stands idle. So one launch
does it all, each layer in four phases, which are spread over all programs:

    1  norm, queries, keys and values; the new key and value go straight into the cache
    2  attention of each head over the cache, its slots divided among a few programs
    3  what these found joined, projected, added to the stream
    4  norm, up, activation, down: what the next layer, or the end, adds to the stream

Between two phases all programs meet. Each asks for its share of the weights a phase before it needs them: they arrive
while it computes and waits. What others wrote is read past the first cache level (".cg"), which may hold what was there
before. The phases can also be launched one by one: then the end of a launch is the meeting.

Between up and down nobody meets: a program multiplies the features that it has with their columns of the down weight,
and what all programs get is added up in memory. They come in any order, so the sums are of whole numbers: then the
order makes no difference, not in one bit. Behind the meeting each program adds the sums to the stream for itself.

The meeting place is one number in memory. Every program adds 1 to it, the first one so much that all together add 2^31:
the sign turns when the last one has come, and all other bits are as before. Nobody resets anything, so the same memory
serves any number of launches, replays of a CUDA graph among them (CUDA's cooperative groups meet in this way too).

Where a layer's weights and its cache lie is in a table of addresses, a row for each layer. Values are rounded where the
layers one by one round them; sums are in fp32. Importing this file needs Triton.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

PHASES = 4
# The table's columns: a weight, behind it its bias, and so on; two are free.
NORM, QKV, OUT, SECOND, UP, DOWN = (tl.constexpr(number) for number in range(0, 12, 2))
KEYS, VALUES, COLUMNS = tl.constexpr(12), tl.constexpr(13), tl.constexpr(16)
WEIGHTS = KEYS.value  # of a layer, biases among them
WIDE = 768
SLOTS = 512  # so many slots of the cache are on their way before the queries are known; others follow in a loop
CHUNK = tl.constexpr(256)  # columns that the 32 threads of a warp read at once, 16 bytes each
FEATURES = tl.constexpr(32)  # so many of a program's features have both their weights in registers, others follow
NEGLIGIBLE = tl.constexpr(-1e30)
# The sums of whole numbers are in units of 2^-36. They overflow at 2^27, 134 million; GPT-2's stream has thousands.
# A part of 2^-13 or more keeps all bits that it has in fp32. A smaller one loses less than a unit, 132 of those at most
# 2^-28, which is two bits of fp32 next to 1/64. What is not finite comes out as some number, but for the stream's own.
UNITS = tl.constexpr(2.0**36)


@dataclass(frozen=True)
class Plan:
    """How a layer is launched.

    programs  all must run at once, so that a GPU needs as many multiprocessors (layers/one_row.py asks); where rows
              are WIDE a third more, since otherwise a program's share of the weights does not fit its registers
    warps     of a program
    splits    among how many programs the slots of one head are divided
    together  one launch with meetings in it, or a launch for each phase
    """

    programs: int = 96
    warps: int = 8
    splits: int = 4
    together: bool = True


plan = Plan()


@torch.library.custom_op("clearhead::one_row", mutates_args=("keys", "values"))
def one_row(
    x: Tensor, weights: list[Tensor], keys: list[Tensor], values: list[Tensor], lengths: Tensor,
    scale: float, eps: float, activation: str,
) -> Tensor:  # fmt: skip
    """x (1,1,width) -> the same, behind all layers; keys and values join the stores (1,S,heads,d) at slot lengths[0].

    `weights` are a layer's in the order of the table, then the next one's. The compiler does not look inside: it would
    not know how to launch programs that meet, nor where.
    """
    width, ff, heads, layers = x.shape[-1], weights[UP.value].shape[0], keys[0].shape[2], len(keys)
    programs, splits = _spread(heads, width)
    after, middle, query = (x.new_empty(size) for size in (x.shape, 2 * width, width))
    found, sizes = (x.new_empty(splits * size, dtype=torch.float32) for size in (width, heads))
    sums, meeting = x.new_empty(2 * width, dtype=torch.int64), _meeting_place(x.device, weights[0].data_ptr())
    table = table_of(weights, keys, values)
    together = plan.together and x.is_cuda
    alone = [(layer, layer + 1, phase, phase) for layer in range(layers) for phase in range(1, PHASES + 1)]
    for start, end, first, last in [(0, layers, 1, PHASES)] if together else alone:
        _layers[(programs,)](
            x, after, table, lengths, query, found, sizes, middle, sums, meeting, scale, eps, start, end, layers,
            WIDTH=width, FF=ff, HEADS=heads, SPLITS=splits, SLOTS=SLOTS // splits, ACTIVATION=activation,
            PROGRAMS=programs, STEP=plan.warps, FIRST=first, LAST=last,
            num_warps=plan.warps, launch_cooperative_grid=together,  # all at once, or the driver refuses
        )  # fmt: skip
    return after


@one_row.register_fake
def _(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x)


def table_of(weights: Sequence[Tensor], keys: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    """(layers, COLUMNS): where the weights of each layer lie, and its keys and values."""
    layers = [weights[start : start + WEIGHTS] for start in range(0, len(weights), WEIGHTS)]
    rows = ((*own, key, value) for own, key, value in zip(layers, keys, values, strict=True))
    return _table(keys[0].device, tuple(tuple(tensor.data_ptr() for tensor in row) for row in rows))


@cache
def _table(device: torch.device, addresses: tuple[tuple[int, ...], ...]) -> Tensor:
    """Made before a graph is captured, when the step is rehearsed, and kept for ever: the graph knows where it is."""
    if any(address % 16 for row in addresses for address in row):
        raise ValueError("the kernel for one row reads 16 bytes at a time: every weight must begin at a multiple of 16")
    return torch.tensor([[*row, *[0] * (COLUMNS.value - len(row))] for row in addresses], device=device)


def programs_for(width: int) -> int:
    return plan.programs * 4 // 3 if width > WIDE else plan.programs


def _spread(heads: int, width: int) -> tuple[int, int]:
    """How many programs there are, and how many of them share a head: a power of two."""
    programs = max(heads, programs_for(width))
    return programs, min(plan.splits, 1 << (programs // heads).bit_length() - 1)


@cache
def _meeting_place(device: torch.device, layer: int) -> Tensor:
    """One for each model, which its first weight's address names, so that two of them may run beside each other.

    They are kept for ever: graphs that were captured know where they are.
    """
    return torch.zeros(1, dtype=torch.int32, device=device)


# Were `sums` known to be aligned, a thread would add to two of them next to each other, and a warp to every other one.
@triton.jit(do_not_specialize=["start", "end", "layers"], do_not_specialize_on_alignment=["sums"])
def _layers(
    x, after, table, lengths, query, found, sizes, middle, sums, meeting, scale, eps, start, end, layers,
    WIDTH: tl.constexpr, FF: tl.constexpr, HEADS: tl.constexpr, SPLITS: tl.constexpr, SLOTS: tl.constexpr,
    ACTIVATION: tl.constexpr, PROGRAMS: tl.constexpr, STEP: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr,
):  # fmt: skip
    """The phases from FIRST to LAST of the layers from `start` to below `end`, of `layers` in all.

    `sign` is that of the number where the programs meet: it turns at each meeting. Between coming to a meeting and
    waiting there a program asks for weights: not for those of the phase that begins, but for those of the one behind
    it. A warp has few counters of what it waits for: with the first thing that it needs of what it asked for before a
    meeting it awaits all of that. So what takes long is asked for when nothing else is.

    What one layer leaves for the next (`middle` and `sums`) is there twice, in turns: nobody writes what a slower
    program may still read.
    """
    ASKED: tl.constexpr = triton.cdiv(3 * WIDTH, PROGRAMS)  # a program's share of queries, keys and values
    ROWS: tl.constexpr = triton.cdiv(WIDTH, PROGRAMS)  # of the stream
    SHARE: tl.constexpr = 8 * triton.cdiv(FF, 8 * PROGRAMS)  # of features: 16 bytes or more of a row of down
    BATCH: tl.constexpr = min(SHARE, max(FEATURES, STEP))
    ASKS: tl.constexpr = FIRST == 1
    ATTENDS: tl.constexpr = FIRST <= 2 and LAST >= 2
    PROJECTS: tl.constexpr = FIRST <= 3 and LAST >= 3
    FEEDS: tl.constexpr = LAST == 4
    MEET: tl.constexpr = FIRST < LAST
    program, sign, length = tl.program_id(0), 0, _length(lengths)
    if MEET:
        sign = _sign(meeting)
    address = tl.load(table + start * COLUMNS + QKV)  # of the first thing that a layer needs: on its way a layer before
    layer = start
    while layer < end:
        qkv_weight, at = _aligned(address, x), table + layer * COLUMNS
        new_middle, new_sums = middle + layer % 2 * WIDTH, sums + layer % 2 * WIDTH
        old_middle, old_sums = middle + (layer + 1) % 2 * WIDTH, sums + (layer + 1) % 2 * WIDTH
        old_bias = _there(table + tl.maximum(layer - 1, 0) * COLUMNS, DOWN + 1, x)
        keys, values = _there(at, KEYS, x), _there(at, VALUES, x)
        if ASKS:
            qkv = _linear(qkv_weight, _there(at, QKV + 1, x), program * ASKED, ASKED, 3 * WIDTH, WIDTH, STEP)
            norm = _vector(_there(at, NORM, x), WIDTH), _vector(_there(at, NORM + 1, x), WIDTH)
            added = _vector(old_bias, WIDTH)
            if layer == start:
                sign = _wait(meeting, sign, False)
            else:
                sign = _wait(meeting, sign, MEET)
            stream = _stream(layer, (_vector(x, WIDTH), _vector(old_middle, WIDTH), _vector(old_sums, WIDTH), added))
            _ask(stream, norm, qkv, keys, values, length, query, new_sums, eps, WIDTH, ASKED, ROWS, STEP)
            _come(meeting, PROGRAMS, MEET)
        address = tl.load(table + tl.minimum(layer + 1, layers - 1) * COLUMNS + QKV)
        if ATTENDS:
            earlier = _earlier(keys, values, length, WIDTH, HEADS, SPLITS, SLOTS)
        if PROJECTS:
            out = _linear(_there(at, OUT, x), _there(at, OUT + 1, x), program * ROWS, ROWS, WIDTH, WIDTH, STEP)
            first = program * ROWS
            before = _own(x, first, ROWS, WIDTH, STEP), _own(old_middle, first, ROWS, WIDTH, STEP)
            before += _own(old_sums, first, ROWS, WIDTH, STEP), _own(old_bias, first, ROWS, WIDTH, STEP)
        if ATTENDS:
            sign = _wait(meeting, sign, MEET)
            _attend(query, keys, values, length, earlier, found, sizes, scale, WIDTH, HEADS, SPLITS, SLOTS)
            _come(meeting, PROGRAMS, MEET)
        if FEEDS:
            up_weight, up_bias, down_weight = _there(at, UP, x), _there(at, UP + 1, x), _there(at, DOWN, x)
            up = _linear(up_weight, up_bias, program * SHARE, BATCH, FF, WIDTH, STEP)
            down = _columns(down_weight, program * SHARE, BATCH, WIDTH, FF, STEP)
            norm = _vector(_there(at, SECOND, x), WIDTH), _vector(_there(at, SECOND + 1, x), WIDTH)
            last_bias = _own(_there(at, DOWN + 1, x), 0, WIDTH, WIDTH, STEP)
        if PROJECTS:
            sign = _wait(meeting, sign, MEET)
            _project(layer, before, found, sizes, out, new_middle, WIDTH, HEADS, SPLITS, ROWS, STEP)
            _come(meeting, PROGRAMS, MEET)
        if FEEDS:
            sign = _wait(meeting, sign, MEET)
            _feed_forward(
                new_middle, norm, up, down, up_weight, up_bias, down_weight, new_sums, eps,
                WIDTH, FF, SHARE, BATCH, ACTIVATION, STEP,
            )  # fmt: skip
            if layer == layers - 1:
                _finish(new_middle, last_bias, new_sums, after, meeting, WIDTH, PROGRAMS, STEP)
            else:
                _come(meeting, PROGRAMS, MEET)
        layer += 1


@triton.jit
def _there(row, NUMBER: tl.constexpr, like):
    """Where something of a layer lies: an address of its row of the table."""
    return _aligned(tl.load(row + NUMBER), like)


@triton.jit
def _aligned(address, like):
    return tl.multiple_of(address.to(like.dtype), 16)


@triton.jit
def _behind(middle, sums, bias):
    """The stream behind a layer: what its feed-forward layer gives is rounded as it would be alone."""
    change = (sums.to(tl.float32) / UNITS + bias.to(tl.float32)).to(middle.dtype)
    return (middle.to(tl.float32) + change.to(tl.float32)).to(middle.dtype)


@triton.jit
def _stream(layer, parts):
    """The stream before a layer, from its parts: the first layer's is what came in."""
    x, middle, sums, bias = parts
    return tl.where(layer == 0, x, _behind(middle, sums, bias))


@triton.jit
def _ask(
    stream, norm, qkv, keys, values, length, query, sums, eps,
    WIDTH: tl.constexpr, ASKED: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Phase 1: q, k and v. In the cache a slot's keys are one row of WIDTH, as they come out of the product."""
    result = _product(qkv, _normed(stream, norm, eps, WIDTH).to(stream.dtype), STEP).to(stream.dtype)
    rows, own = _rows(tl.program_id(0) * ASKED, ASKED, 3 * WIDTH, STEP)
    tl.store(query + rows, result, mask=own & (rows < WIDTH))
    tl.store(keys + length * WIDTH + rows - WIDTH, result, mask=own & (rows >= WIDTH) & (rows < 2 * WIDTH))
    tl.store(values + length * WIDTH + rows - 2 * WIDTH, result, mask=own & (rows >= 2 * WIDTH))
    outputs, there = _rows(tl.program_id(0) * ROWS, ROWS, WIDTH, STEP)
    tl.store(sums + outputs, 0, mask=there)  # to these all add in phase 4


@triton.jit
def _earlier(keys, values, length, WIDTH: tl.constexpr, HEADS: tl.constexpr, SPLITS: tl.constexpr, SLOTS: tl.constexpr):
    """Keys and values of earlier tokens, for phase 2: the new token's are not there yet."""
    features, slots, length = _part(length, WIDTH, HEADS, SPLITS, SLOTS)
    there = slots < length
    return _slots(keys, slots, features, there, WIDTH), _slots(values, slots, features, there, WIDTH)


@triton.jit
def _attend(
    query, keys, values, length, earlier, found, sizes, scale,
    WIDTH: tl.constexpr, HEADS: tl.constexpr, SPLITS: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """Phase 2: a program's slots of a head. What it finds, and the logarithm of what that weighs."""
    head, split = tl.program_id(0) % HEADS, tl.program_id(0) // HEADS
    features, slots, length = _part(length, WIDTH, HEADS, SPLITS, SLOTS)
    key, value = earlier
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


@triton.jit
def _project(
    layer, before, found, sizes, out, middle,
    WIDTH: tl.constexpr, HEADS: tl.constexpr, SPLITS: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Phase 3: the heads' output, projected, and the stream."""
    stream = _stream(layer, before)
    concat = _joined(found, sizes, WIDTH, HEADS, SPLITS).to(stream.dtype)
    change = _product(out, concat, STEP).to(stream.dtype)
    rows, there = _rows(tl.program_id(0) * ROWS, ROWS, WIDTH, STEP)
    tl.store(middle + rows, stream.to(tl.float32) + change.to(tl.float32), mask=there)


@triton.jit
def _feed_forward(
    middle, norm, up, down, up_weight, up_bias, down_weight, sums, eps,
    WIDTH: tl.constexpr, FF: tl.constexpr, SHARE: tl.constexpr, BATCH: tl.constexpr, ACTIVATION: tl.constexpr,
    STEP: tl.constexpr,
):  # fmt: skip
    """Phase 4: a program's features, and their part of each output, which is added to the parts of others."""
    normed = _normed(_vector(middle, WIDTH), norm, eps, WIDTH).to(middle.dtype.element_ty)
    part = _passed_through(normed, up, down, ACTIVATION, STEP)
    for start in tl.static_range(BATCH, SHARE, BATCH):
        first = tl.program_id(0) * SHARE + start
        up = _linear(up_weight, up_bias, first, min(BATCH, SHARE - start), FF, WIDTH, STEP)
        down = _columns(down_weight, first, min(BATCH, SHARE - start), WIDTH, FF, STEP)
        part += _passed_through(normed, up, down, ACTIVATION, STEP)
    outputs, there = _rows(0, WIDTH, WIDTH, STEP)
    wide = part.to(tl.float64)  # the compiler spreads the parts over all threads before this, else behind what follows
    tl.atomic_add(sums + outputs, (wide * UNITS).to(tl.int64), mask=there, sem="relaxed")


@triton.jit
def _passed_through(normed, up, down, ACTIVATION: tl.constexpr, STEP: tl.constexpr):
    """A batch of features: the rows of the up weight, the activation, and their columns of the down weight, in fp32."""
    features = _product(up, normed, STEP).to(normed.dtype)
    hidden = _activated(features.to(tl.float32), ACTIVATION).to(normed.dtype)
    return tl.sum(down.to(tl.float32) * hidden.to(tl.float32)[None, :], 1)


@triton.jit
def _finish(middle, bias, sums, after, meeting, WIDTH: tl.constexpr, PROGRAMS: tl.constexpr, STEP: tl.constexpr):
    """The end of the last layer, by the program that comes last: all parts are there, and nobody needs to wait."""
    if _is_last(meeting, PROGRAMS):
        outputs, there = _rows(0, WIDTH, WIDTH, STEP)
        stream = _behind(_own(middle, 0, WIDTH, WIDTH, STEP), _own(sums, 0, WIDTH, WIDTH, STEP), bias)
        tl.store(after + outputs, stream, mask=there)


@triton.jit
def _sign(meeting):
    """That of the number where the programs meet: it can't turn before this one has come to the first meeting.

    One thread reads it for all, and they have it at once. Each for itself would await it only when it looks whether the
    first meeting is over, together with what it asked for before.
    """
    return tl.atomic_add(meeting, 0, sem="relaxed")


@triton.jit
def _come(meeting, PROGRAMS: tl.constexpr, MEET: tl.constexpr):
    """To a meeting, with all that this program wrote: one thread speaks for it, when the others are done."""
    if MEET:
        tl.debug_barrier()
        tl.atomic_add(meeting, _voice(PROGRAMS), sem="release")


@triton.jit
def _wait(meeting, sign, MEET: tl.constexpr):
    """Until the last program has come. The sign from now on. (Nothing is added: the compiler makes it a load.)"""
    if MEET:
        while (tl.atomic_add(meeting, 0, sem="acquire") ^ sign) >= 0:
            pass
        sign = ~sign
    else:
        tl.debug_barrier()  # or the assembler puts off what was asked for until it is needed
    return sign


@triton.jit
def _is_last(meeting, PROGRAMS: tl.constexpr):
    """Come to a meeting where nobody waits: whether all others have been there, and what they wrote can be seen."""
    tl.debug_barrier()
    others = tl.atomic_add(meeting, _voice(PROGRAMS), sem="acq_rel") & 2147483647
    return others == 2147483647 - _voice(PROGRAMS) + 1


@triton.jit
def _voice(PROGRAMS: tl.constexpr):
    """What this program adds to the number where they meet: those of all programs are 2^31."""
    return tl.where(tl.program_id(0) == 0, 2147483647 - PROGRAMS + 2, 1)


@triton.jit
def _length(lengths):
    """How many tokens the row has: the new one's slot."""
    return tl.load(lengths, cache_modifier=".cg").to(tl.int32)


@triton.jit
def _part(length, WIDTH: tl.constexpr, HEADS: tl.constexpr, SPLITS: tl.constexpr, SLOTS: tl.constexpr):
    """A head's features, the first of its slots that are this program's (every SPLITS-th is), and the row's length.

    A program that has no head has a row of length -1: it is there for the meetings alone.
    """
    HEAD: tl.constexpr = WIDTH // HEADS
    head, split = tl.program_id(0) % HEADS, tl.program_id(0) // HEADS
    length = tl.where(split < SPLITS, length, -1)
    return head * HEAD + tl.arange(0, HEAD), split + SPLITS * tl.arange(0, SLOTS), length


@triton.jit
def _rows(first, COUNT: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    """COUNT rows from `first` on, of N in all, in whole blocks of STEP: their numbers, and which of them there are."""
    inside = tl.arange(0, STEP * triton.next_power_of_2(triton.cdiv(COUNT, STEP)))
    return first + inside, (inside < COUNT) & (first + inside < N)


@triton.jit
def _own(pointer, first, COUNT: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    """Of N numbers those of some rows, zeros behind them."""
    rows, there = _rows(first, COUNT, N, STEP)
    return tl.load(pointer + rows, mask=there, other=0, cache_modifier=".cg")


@triton.jit
def _tiles(weight, first, COUNT: tl.constexpr, N: tl.constexpr, K: tl.constexpr, STEP: tl.constexpr):
    """Some rows of a weight (N,K), in blocks of STEP, all asked for at once. A row is with one warp."""
    tiles, columns = (), _places(K)
    for start in tl.static_range(0, COUNT, STEP):
        inside = start + tl.arange(0, STEP)
        there = (inside < COUNT) & (first + inside < N)
        at = (first + inside)[:, None, None] * K + columns[None, :, :]
        mask = there[:, None, None] & (columns < K)[None, :, :]
        tiles += (tl.load(weight + at, mask=mask, other=0.0, eviction_policy="evict_first"),)
    return tiles


@triton.jit
def _linear(weight, bias, first, COUNT: tl.constexpr, N: tl.constexpr, K: tl.constexpr, STEP: tl.constexpr):
    """Some rows of a weight (N,K) and of its bias."""
    return _tiles(weight, first, COUNT, N, K, STEP), _own(bias, first, COUNT, N, STEP)


@triton.jit
def _columns(weight, first, COUNT: tl.constexpr, N: tl.constexpr, K: tl.constexpr, STEP: tl.constexpr):
    """All rows of a weight (N,K), of its columns COUNT from `first` on."""
    rows, is_row = _rows(0, N, N, STEP)
    columns, is_column = _rows(first, COUNT, K, STEP)
    at, mask = rows[:, None] * K + columns[None, :], is_row[:, None] & is_column[None, :]
    return tl.load(weight + at, mask=mask, other=0.0, eviction_policy="evict_first")


@triton.jit
def _places(SIZE: tl.constexpr):
    """0, 1, 2 ... in rows of CHUNK, a power of two of rows that holds SIZE numbers."""
    ROOM: tl.constexpr = triton.next_power_of_2(SIZE)
    ROW: tl.constexpr = min(CHUNK, ROOM)
    return tl.arange(0, ROOM // ROW)[:, None] * ROW + tl.arange(0, ROW)[None, :]


@triton.jit
def _vector(pointer, SIZE: tl.constexpr):
    """SIZE numbers, zeros behind them."""
    places = _places(SIZE)
    return tl.load(pointer + places, mask=places < SIZE, other=0, cache_modifier=".cg")


@triton.jit
def _slots(store, slots, features, mask, WIDTH: tl.constexpr):
    """Keys or values of one head in some slots."""
    at = slots[:, None] * WIDTH + features[None, :]
    return tl.load(store + at, mask=mask[:, None], other=0.0, cache_modifier=".cg")


@triton.jit
def _normed(x, norm, eps, WIDTH: tl.constexpr):
    """Layer norm, in fp32. Every program does it for itself."""
    factor, shift = norm
    x = x.to(tl.float32)
    centred = tl.where(_places(WIDTH) < WIDTH, x - tl.sum(x) / WIDTH, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred) / WIDTH + eps)
    return centred * scale * factor.to(tl.float32) + shift.to(tl.float32)


@triton.jit
def _product(linear, vector, STEP: tl.constexpr):
    """Some rows of a weight times a vector, plus their biases, in fp32."""
    tiles, added = linear
    results = ()
    for block in tl.static_range(len(tiles)):
        results += (tl.sum(tl.sum(tiles[block].to(tl.float32) * vector.to(tl.float32)[None, :, :], 1), 1),)
    return _stacked(results, STEP) + added.to(tl.float32)


@triton.jit
def _stacked(blocks, STEP: tl.constexpr):
    """Vectors of STEP numbers behind each other, zeros behind them: a power of two. Nothing moves between threads."""
    COUNT: tl.constexpr = triton.next_power_of_2(len(blocks))
    for _ in tl.static_range(len(blocks), COUNT):
        blocks += (tl.zeros_like(blocks[0]),)
    for _ in tl.static_range(COUNT.bit_length() - 1):  # pyright: ignore[reportAttributeAccessIssue]
        pairs = ()
        for block in tl.static_range(len(blocks) // 2):
            pairs += (tl.join(blocks[block], blocks[len(blocks) // 2 + block]),)
        blocks = pairs
    return tl.reshape(tl.trans(tl.reshape(blocks[0], [STEP, COUNT])), [COUNT * STEP])


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
    places, there = heads[:, None] * HEAD + features[None, :], tl.broadcast_to((heads < HEADS)[:, None], ALL, HEAD)
    parts, logs = (), ()
    for split in tl.static_range(SPLITS):
        parts += (tl.load(found + split * WIDTH + places, mask=there, other=0.0, cache_modifier=".cg"),)
        logs += (tl.load(sizes + split * HEADS + heads, mask=heads < HEADS, other=0.0, cache_modifier=".cg"),)
    top, total, answer = logs[0], tl.zeros_like(logs[0]), tl.zeros_like(parts[0])
    for split in tl.static_range(1, SPLITS):
        top = tl.maximum(top, logs[split])
    for split in tl.static_range(SPLITS):
        weight = tl.exp(logs[split] - top)
        total += weight
        answer += weight[:, None] * parts[split]
    return tl.reshape(answer * (1 / total)[:, None], [ALL * HEAD // ROW, ROW])


@triton.jit
def _activated(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "gelu-tanh":
        return x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    elif ACTIVATION == "gelu":
        return 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    else:
        tl.static_assert(ACTIVATION == "relu")
        return tl.maximum(x, 0.0)
