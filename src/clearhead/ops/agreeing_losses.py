"""The loss of rows that were read twice and should agree (train/consistency.py), and its slopes, in one Triton kernel.

One program has a row and the same row again: it holds the logits of both in registers, reads them once and writes their
slopes over them. Step by step it takes a dozen tensors as large as all logits. Importing this file needs Triton.
"""

# A type checker takes a kernel for a function of Python.
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false, reportGeneralTypeIssues=false

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

WARPS = 16  # of up to 16,384 words, the logits of both rows are 64 of a thread's 128 registers


def agreeing_losses(
    logits: Tensor, targets: Tensor, weights: Tensor | None, smoothing: float, consistency: float, vocab: int
) -> tuple[Tensor, Tensor]:
    """logits (2N, vocab or more) of rows and the same rows again, targets and weights (N,) -> two of (N,), weighted.

    The first is the mean of both cross-entropies plus `consistency` times the second, which is how far the two are from
    each other: half of both divergences. The logits are overwritten by the slopes of the first; columns behind the
    vocabulary are padding and have slopes of 0.
    """
    half = len(logits) // 2
    losses, apart = torch.empty(2, half, dtype=torch.float32, device=logits.device)
    with torch.cuda.device_of(logits):
        _agree[(half,)](
            logits,
            targets.contiguous(),
            None if weights is None else weights.float().contiguous(),
            losses,
            apart,
            half,
            smoothing,
            consistency,
            STRIDE=logits.stride(0),
            VOCAB=vocab,
            BLOCK=triton.next_power_of_2(logits.shape[1]),
            num_warps=WARPS,
        )
    return losses, apart


@triton.jit
def _log_chances(at, there):
    """A row of logits -> logarithms of its probabilities; 0 where there is none."""
    x = tl.load(at, there, float("-inf")).to(tl.float32)
    x -= tl.max(x, 0)
    return tl.where(there, x - tl.log(tl.sum(tl.exp(x), 0)), 0.0)


@triton.jit
def _agree(
    logits, targets, weights, losses, apart, half, smoothing, consistency,
    STRIDE: tl.constexpr, VOCAB: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    there, written = column < VOCAB, column < STRIDE
    at, again = logits + row * STRIDE + column, logits + (row + half) * STRIDE + column
    target = tl.load(targets + row)
    weight = 1.0 if weights is None else tl.load(weights + row)
    log_p, log_q = _log_chances(at, there), _log_chances(again, there)
    p, q = tl.where(there, tl.exp(log_p), 0.0), tl.where(there, tl.exp(log_q), 0.0)
    by_p, by_q = tl.sum(p * (log_p - log_q), 0), tl.sum(q * (log_p - log_q), 0)
    divergence = (by_p - by_q) / 2
    both = log_p + log_q
    aimed_at = tl.sum(tl.where(column == target, both, 0.0), 0)
    entropy = -((1.0 - smoothing) * aimed_at + smoothing * tl.sum(both, 0) / VOCAB) / 2
    entropy = tl.where((target >= 0) & (target < VOCAB), entropy, float("inf"))  # no word
    tl.store(losses + row, (entropy + consistency * divergence) * weight)
    tl.store(apart + row, divergence * weight)
    wanted = tl.where(column == target, 1.0 - smoothing, 0.0) + smoothing / VOCAB
    slope = p - wanted + consistency * (p * (log_p - log_q - by_p) + p - q)
    tl.store(at, tl.where(there, slope * weight / 2, 0.0).to(logits.dtype.element_ty), written)
    slope = q - wanted + consistency * (q * (by_q - log_p + log_q) + q - p)
    tl.store(again, tl.where(there, slope * weight / 2, 0.0).to(logits.dtype.element_ty), written)
