"""A memory beside a language model: what came next when it was last in a state like this (Grave et al. 2017).

Of the last `size` tokens the memory holds the hidden state that each was scored from. A token is as likely by it as the
states are that it followed, in a softmax over their products with the present state: an attention whose values are the
tokens themselves. Nothing is learnt but two numbers, `sharpness` (of the softmax) and `share` (how much the memory has
to say), and these are chosen on another part than the one that is reported.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

AT_ONCE = 512  # queries
SHARPNESS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0)  # of products over the root of the width
SHARES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)


@dataclass(frozen=True)
class Scored:
    """A stream in its order: the states (T,width) that its tokens (T,) were scored from, and how likely they were."""

    hidden: Tensor
    tokens: Tensor
    logprobs: Tensor


@dataclass(frozen=True)
class Mixture:
    sharpness: float
    share: float


def remembered(stream: Scored, size: int, sharpness: float) -> Tensor:
    """(T,): the logarithm of each token's probability by the memory alone; -inf where it was not among the last."""
    total, width = stream.hidden.shape
    places = torch.arange(total, device=stream.hidden.device)
    found = []
    for first in range(0, total, AT_ONCE):
        last, begin = min(first + AT_ONCE, total), max(0, first - size)
        now, before = places[first:last, None], places[begin:last]
        inside = (before < now) & (before >= now - size)
        scores = stream.hidden[first:last] @ stream.hidden[begin:last].T * (sharpness / math.sqrt(width))
        scores = scores.float().masked_fill(~inside, -math.inf)
        same = stream.tokens[first:last, None] == stream.tokens[begin:last]
        alike = scores.masked_fill(~same, -math.inf).logsumexp(-1)
        found.append(torch.where(inside.any(-1), alike - scores.logsumexp(-1), -math.inf))
    return torch.cat(found)


def nats(stream: Scored, memory: Tensor, share: float) -> float:
    """The stream's loss where the memory has this share of the say; where it is empty, the model has all of it."""
    full = torch.arange(len(memory), device=memory.device) > 0
    mixed = torch.logaddexp(stream.logprobs + math.log1p(-share), memory + math.log(share))
    return -torch.where(full, mixed, stream.logprobs).double().sum().item()


def best_mixture(stream: Scored, size: int) -> Mixture:
    """Of all that are tried the one with the least loss."""
    found: dict[Mixture, float] = {}
    for sharpness in SHARPNESS:
        memory = remembered(stream, size, sharpness)
        found |= {Mixture(sharpness, share): nats(stream, memory, share) for share in SHARES}
    return min(found, key=found.__getitem__)
