"""Cross-entropies of rows of logits and their slopes in one Triton kernel: a GPU's memory is read and written once.

One program has one row. It sweeps over it twice: first for the largest logit and the sum of exponentials, both at once,
then for the slopes, which it writes over the logits. A row of GPT-2 is 100 KB: the second sweep finds it in the caches,
the more so as it begins where the first one ended. 32 x 1,024 rows are 3.3 GB; they are never copied.

Every lane keeps its own maximum and sum of the numbers that one load of 16 bytes gives it: no thread waits for another
before the end of a sweep. Whole blocks need no mask; what is left of the vocabulary, and the padding behind it, has.
Importing this file needs Triton, and a card with bf16 and 1,024 threads a program, if there is one: NVIDIA's from 2020.
"""

# A type checker takes a kernel for a function of Python.
# pyright: reportCallIssue=false, reportIndexIssue=false, reportGeneralTypeIssues=false

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

if torch.cuda.is_available() and (torch.version.hip or torch.cuda.get_device_capability() < (8, 0)):
    raise ImportError("this card can't run the kernel")

LANES, WARPS = 2048, 32  # two loads of each thread on their way, and two rows on each processor at a time
LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
LOWEST = tl.constexpr(-1e30)  # below all logits, and no infinity: the difference of two of those is not a number


def losses_and_slopes(
    logits: Tensor,
    targets: Tensor,
    weights: Tensor | None,
    smoothing: float,
    vocab: int,
    lanes: int = LANES,
    warps: int = WARPS,
) -> Tensor:
    """logits (N, vocab or more), targets (N,), weights (N,) -> losses (N,) in nats, each times its weight, if given.

    The logits are overwritten by the losses' slopes. Columns behind the vocabulary are padding: whatever stands there
    counts for nothing, and its slopes are 0.

    smoothing  this share of the probability that is aimed at is spread evenly over the whole vocabulary
    """
    losses = torch.empty(len(logits), dtype=torch.float32, device=logits.device)
    vector = 16 // logits.element_size()
    with torch.cuda.device_of(logits):
        _losses_and_slopes[(len(logits),)](
            logits,
            targets.contiguous(),
            None if weights is None else weights.float().contiguous(),
            losses,
            smoothing,
            SMOOTHED=smoothing > 0,
            STRIDE=logits.stride(0),
            VOCAB=vocab,
            LANES=lanes,
            VECTOR=vector,
            LAST=_columns_left(logits.stride(0), vocab, lanes, vector),
            num_warps=warps,
            maxnreg=1024 // warps,  # or the second row finds no room
        )
    return losses


def _columns_left(stride: int, vocab: int, lanes: int, vector: int) -> int:
    """How many columns behind the whole blocks each lane gets: 2,048 of them share GPT-2's last 1,152, two each."""
    left = stride - vocab // (lanes * vector) * (lanes * vector)
    each = -(-left // lanes)
    return min(vector, 1 << max(1, (each - 1).bit_length()))


@triton.jit
def _losses_and_slopes(
    logits,
    targets,
    weights,
    losses,
    smoothing,
    SMOOTHED: tl.constexpr,
    STRIDE: tl.constexpr,
    VOCAB: tl.constexpr,
    LANES: tl.constexpr,
    VECTOR: tl.constexpr,
    LAST: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    logits += row * STRIDE
    target = tl.load(targets + row).to(tl.int32)
    weight = 1.0 if weights is None else tl.load(weights + row)

    highest, total, mean = _sums(logits, SMOOTHED, STRIDE, VOCAB, LANES, VECTOR, LAST)
    a_word = (target >= 0) & (target < VOCAB)
    aimed_at = tl.load(logits + target, mask=a_word, other=float("-inf")).to(tl.float32)  # no word: an infinite loss
    below = highest - aimed_at * LOG2_E
    loss = (below + tl.log2(total)) * LN_2
    share, spread = weight / total, 0.0
    if SMOOTHED:
        loss += smoothing * (aimed_at - mean)
        spread = smoothing * weight / VOCAB
    tl.store(losses + row, loss * weight)

    tl.debug_barrier()  # all threads have read the target's logit before one writes there
    _write_slopes(logits, highest, share, spread, STRIDE, VOCAB, LANES, VECTOR, LAST)
    tl.debug_barrier()  # and its slope was written like all others before one thread writes it again
    slope = tl.exp2(-below) * share - (1.0 - smoothing if SMOOTHED else 1.0) * weight - spread
    tl.store(logits + target, slope.to(logits.dtype.element_ty), mask=a_word)


@triton.jit
def _sums(
    logits,
    SMOOTHED: tl.constexpr,
    STRIDE: tl.constexpr,
    VOCAB: tl.constexpr,
    LANES: tl.constexpr,
    VECTOR: tl.constexpr,
    LAST: tl.constexpr,
):
    """One row -> its largest logit to the base 2, the sum of all powers of 2 below that, and the mean of its logits.

    The mean is asked for by smoothing alone.
    """
    BLOCK: tl.constexpr = LANES * VECTOR
    columns, last = _columns(LANES, VECTOR), _columns(LANES, LAST)
    WHOLE: tl.constexpr = VOCAB // BLOCK * BLOCK
    top = tl.full((LANES,), LOWEST, tl.float32)
    total = tl.zeros((LANES,), tl.float32)
    plain = tl.zeros((LANES,), tl.float32)
    for start in range(0, WHOLE, BLOCK):
        x = tl.load(logits + start + columns, eviction_policy="evict_last").to(tl.float32)
        top, total = _with(top, total, x)
        if SMOOTHED:
            plain += tl.sum(x, 1)
    for start in range(WHOLE, STRIDE, LANES * LAST):
        x = tl.load(logits + start + last, mask=start + last < STRIDE, eviction_policy="evict_last").to(tl.float32)
        top, total = _with(top, total, tl.where(start + last < VOCAB, x, float("-inf")))
        if SMOOTHED:
            plain += tl.sum(tl.where(start + last < VOCAB, x, 0.0), 1)
    highest = tl.max(top, 0)
    return highest, tl.sum(total * tl.exp2(top - highest), 0), tl.sum(plain, 0) / VOCAB


@triton.jit
def _with(top, total, x):
    """Each lane's largest number and its sum of exponentials, both to the base 2, with some more logits in them."""
    higher = tl.maximum(top, tl.max(x, 1) * LOG2_E)
    return higher, total * tl.exp2(top - higher) + tl.sum(tl.exp2(x * LOG2_E - higher[:, None]), 1)


@triton.jit
def _write_slopes(
    logits,
    highest,
    share,
    spread,
    STRIDE: tl.constexpr,
    VOCAB: tl.constexpr,
    LANES: tl.constexpr,
    VECTOR: tl.constexpr,
    LAST: tl.constexpr,
):
    """Over the logits of a row, from its end to its beginning: probability times weight, less what is spread evenly.

    A probability is a power of 2 below the largest, over the sum of all: `share` has that sum and the row's weight.
    """
    BLOCK: tl.constexpr = LANES * VECTOR
    columns, last = _columns(LANES, VECTOR), _columns(LANES, LAST)
    WHOLE: tl.constexpr = VOCAB // BLOCK * BLOCK
    for start in range(WHOLE, STRIDE, LANES * LAST):
        at, there = logits + start + last, start + last < STRIDE
        x = tl.load(at, mask=there, eviction_policy="evict_first").to(tl.float32)
        slopes = tl.exp2(x * LOG2_E - highest) * share - spread
        slopes = tl.where(start + last < VOCAB, slopes, 0.0)
        tl.store(at, slopes.to(logits.dtype.element_ty), mask=there, eviction_policy="evict_first")
    for done in range(0, WHOLE, BLOCK):
        at = logits + (WHOLE - BLOCK - done) + columns
        x = tl.load(at, eviction_policy="evict_first").to(tl.float32)
        slopes = tl.exp2(x * LOG2_E - highest) * share - spread
        tl.store(at, slopes.to(logits.dtype.element_ty), eviction_policy="evict_first")


@triton.jit
def _columns(LANES: tl.constexpr, EACH: tl.constexpr):
    """(LANES, EACH): which columns of a block each lane loads."""
    return tl.arange(0, LANES)[:, None] * EACH + tl.arange(0, EACH)[None, :]
