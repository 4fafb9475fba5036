"""What a pass computes without naming it, by the model's own modules, from what was recorded.

A name's last word says which rule makes it, what stands before it where: `input.one_hot`, `encoder.position_bias`,
`decoder.blocks.0.attention.allowed`, `logits.probabilities`.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ...analyse.answers import probabilities_of
from ...errors import ClearheadError, near
from ...layers import RelativeBias, SelfAttention
from ...layers.attention import split_heads
from ...models import Model
from .reading import Readable, of_heads, of_matrix
from .stream import attention_reads, part_of, stack_gives
from .weights import PARTS

ALL = slice(None)


class Known(Protocol):
    """What a rule may ask: the model, and other matrices of the pass."""

    model: Model

    def get(self, key: str, head: int = 0, rows: slice = ALL, columns: slice = ALL) -> Tensor: ...

    def find(self, key: str) -> Readable: ...

    def shape(self, key: str) -> tuple[int, int]: ...


def derived(known: Known, name: str) -> Readable:
    at, _, rule = name.rpartition(".")
    if rule not in RULES:
        raise ClearheadError(f"nothing is derived by the name '{rule}'{near(rule, RULES)}")
    return RULES[rule](known, at)


def _one_hot(known: Known, at: str) -> Readable:
    """(tokens, vocabulary): a 1 in each row, at the token's number."""
    ids, words = f"site:{at}.ids", known.shape(f"weight:{at}.tokens")[0]

    def read(_: int, rows: slice, columns: slice) -> Tensor:
        return known.get(ids, rows=rows) == torch.arange(words)[columns]

    return Readable((known.shape(ids)[0], words), read, f"{at}.ids")


def _places(known: Known, at: str) -> Readable:
    """(tokens, 1): 0, 1, 2 ..."""
    return of_matrix(torch.arange(known.shape(f"site:{at}.positions")[0])[:, None], f"{at}.positions")


def _segment_ids(known: Known, at: str) -> Readable:
    """(tokens, 1): which row of the segments' table each token got, found by comparing them."""
    rows = f"site:{at}.segments"

    def read(_: int, some: slice, columns: slice) -> Tensor:
        return torch.cdist(known.get(rows, rows=some), known.get(f"weight:{at}.segments")).argmin(-1)[:, None][
            :, columns
        ]

    return Readable((known.shape(rows)[0], 1), read, f"{at}.segments")


def _position_bias(known: Known, at: str) -> Readable:
    """(queries, keys) of each head: what a stack adds to the scores of every block."""
    module = part_of(known.model, f"{at}_bias", RelativeBias)
    keys = known.shape(f"site:{at}.blocks.0.attention.scores")[1]
    return of_heads(module(keys)[0], f"{at}_bias.weight")


def _allowed(known: Known, at: str) -> Readable:
    """(queries, keys): 1 where a query may look."""
    masked = known.find(f"site:{at}.masked")
    return Readable(
        masked.shape, lambda *where: ~torch.isneginf(masked.read(*where)), f"{at}.masked", heads=masked.heads
    )


def _straight(known: Known, at: str) -> Readable:
    """Queries or keys (tokens, d_k) of each head before they are turned, by the layer's own product."""
    attention = _attention(known, at)
    return _when_asked(known, at, f"{at.rpartition('.')[0]}.qkv.weight", lambda: _projected(known, at, attention))


def _turned_part(own: bool) -> "Rule":
    """A feature times the cosine of its angle (its own part), or its partner times the sine: they sum to the turn."""

    def rule(known: Known, at: str) -> Readable:
        attention = _attention(known, at)
        return _when_asked(known, at, at, lambda: _turned(attention, _projected(known, at, attention), own))

    return rule


def _attention(known: Known, at: str) -> SelfAttention:
    owner, _, part = at.rpartition(".")
    attention = part_of(known.model, owner, SelfAttention)
    if attention.rotary is None or part not in PARTS[:2]:
        raise ClearheadError(f"nothing is turned at '{at}'")
    return attention


def _projected(known: Known, at: str, attention: SelfAttention) -> Tensor:
    """(heads, tokens, d_k): X W_Q or X W_K, split into heads."""
    owner, _, part = at.rpartition(".")
    x = known.get(f"site:{attention_reads(known.model, owner.rpartition('.')[0])}")
    parts = attention.qkv(x[None].to(known.model.device, known.model.dtype)).split(attention.sizes, -1)
    count = attention.heads.count if part == "query" else attention.heads.kv_count
    return split_heads(parts[PARTS.index(part)], count)[0]


def _turned(attention: SelfAttention, x: Tensor, own: bool) -> Tensor:
    """The turn is linear in the two halves of the features, so each half is turned alone."""
    assert attention.rotary is not None
    half = x.shape[-1] // 2
    halves = x.clone(), x.clone()
    halves[0][..., half:], halves[1][..., :half] = 0, 0
    first, second = (attention.rotary(part[None])[0] for part in halves)
    left, right = (first, second) if own else (second, first)
    return torch.cat([left[..., :half], right[..., half:]], -1)


def _when_asked(known: Known, like: str, source: str, make: Callable[[], Tensor]) -> Readable:
    """Matrices (heads, rows, columns) of a site's shape, computed when one is read for the first time."""
    site, made = known.find(f"site:{like}"), cache(make)

    def read(head: int, rows: slice, columns: slice) -> Tensor:
        matrices = made()
        return matrices[head * len(matrices) // site.heads][rows, columns]

    return Readable(site.shape, read, source, site.heads)


def _first(known: Known, at: str) -> Readable:
    """(1, width): what a stack gives for its first token."""
    whole = known.find(f"site:{stack_gives(known.model, at)}")
    return Readable(
        (1, whole.shape[1]), lambda head, rows, columns: whole.read(head, slice(0, 1), columns)[rows], whole.source
    )


def _product(known: Known, at: str) -> Readable:
    """(1, width): the encoder's first row times the pooler's matrix, before its tanh."""
    if at != "pooler":
        raise ClearheadError(f"'{at}' is no pooler")
    pooler = part_of(known.model, at, nn.Linear)

    def read(_: int, rows: slice, columns: slice) -> Tensor:
        x = known.get("derived:encoder.first").to(known.model.device, known.model.dtype)
        return pooler(x)[rows, columns]

    return Readable((1, known.shape(f"weight:{at}")[1]), read, f"{at}.weight")


def _scaled(known: Known, at: str) -> Readable:
    """What a stack gives, times 1/sqrt(width): a T5 does this before its head."""
    whole = known.find(f"site:{stack_gives(known.model, at)}")
    factor = output_factor(known.model)
    return Readable(whole.shape, lambda *where: whole.read(*where) * factor, whole.source)


def output_factor(model: Model) -> float:
    """See T5.head."""
    return model.config.width**-0.5


def _probabilities(known: Known, at: str) -> Readable:
    """Scores as probabilities, each row for itself; a span's start and end are probabilities over the places."""
    scores = known.find(f"site:{at}")

    def read(_: int, rows: slice, columns: slice) -> Tensor:
        part = scores.read(0, rows, ALL).float()
        found = part.softmax(-1) if at.endswith(".T") else probabilities_of(known.model, part)
        if found is None:
            raise ClearheadError(f"the scores at '{at}' are a measure: they have no probabilities")
        return found[:, columns]

    return Readable(scores.shape, read, at.removesuffix(".T"))


def _chosen(known: Known, at: str) -> Readable:
    """(rows, 1): the number of the best of each row."""
    scores = known.find(f"site:{at}")

    def read(_: int, rows: slice, columns: slice) -> Tensor:
        return scores.read(0, rows, ALL).argmax(-1)[:, None][:, columns]

    return Readable((scores.shape[0], 1), read, at.removesuffix(".T"))


Rule = Callable[[Any, str], Readable]
RULES: dict[str, Rule] = {
    "one_hot": _one_hot,
    "places": _places,
    "segment_ids": _segment_ids,
    "position_bias": _position_bias,
    "allowed": _allowed,
    "straight": _straight,
    "along": _turned_part(own=True),
    "across": _turned_part(own=False),
    "first": _first,
    "product": _product,
    "scaled": _scaled,
    "probabilities": _probabilities,
    "chosen": _chosen,
}
