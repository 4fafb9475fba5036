"""An answer looked at from the side: where each token was read from; taught with the true tokens, tested without."""

from typing import Any

import torch

from ..analyse import attention_maps
from ..decode import compare_modes
from ..errors import ClearheadError
from ..tasks.record import record
from .decode_schema import CrossRows, DecodeModes, Forced, Free, ModePlace
from .decoding import LONGEST, Watched
from .writers import Writing


def cross_rows(job: Writing, tokens: list[int], layer: int | None, heads: bool) -> CrossRows | None:
    """From a second pass over the whole answer; None where the model reads one text."""
    if job.writes.continues:
        if layer is not None or heads:
            raise ClearheadError("a model that goes on with a text has no cross-attention: ask for no layer, no heads")
        return None
    model = job.writes.model
    count = len(model.decoder.blocks)
    layer = max(0, count - 2) if layer is None else layer  # the one that comes nearest to what people align
    if not 0 <= layer < count:
        raise ClearheadError(f"there is no layer {layer}: the decoder has {count}, from 0")
    site = f"decoder.blocks.{layer}.cross.weights"
    shown = torch.tensor([[*job.begin, *tokens[:-1]]])
    one = attention_maps(record(model, (torch.tensor([job.ids]), shown), sites=site), "cross")[0]
    weights = one.weights[:, len(job.begin) - 1 :]
    return CrossRows(
        layer=layer,
        layers=count,
        site=site,
        rows=weights.mean(0).tolist(),
        heads=weights.tolist() if heads else None,
    )


def checked_tokens(job: Writing, tokens: list[int]) -> list[int]:
    size = getattr(job.writes.model.config, "target_vocab", None) or job.writes.model.config.vocab
    if len(tokens) > LONGEST:
        raise ClearheadError(f"{len(tokens)} tokens are more than the {LONGEST} that are looked at here")
    for number in tokens:
        if not 0 <= number < size:
            raise ClearheadError(f"tokens are numbered 0 to {size - 1}: there is no {number}")
    return tokens


def modes(job: Writing, target: str) -> DecodeModes:
    """Both modes on the true target; an answer's end is part of it."""
    writes, cached = job.writes, []
    true = writes.target.ids(target, special=False)
    if not true:
        raise ClearheadError("the target is empty: there is nothing to compare with")
    if not writes.continues and writes.end:
        true.append(min(writes.end))
    room = writes.room(job.ids)
    if len(true) > min(LONGEST, LONGEST if room is None else room):
        most = min(LONGEST, LONGEST if room is None else room)
        raise ClearheadError(f"a target of {len(true)} tokens doesn't fit: there is room for {most}")
    watched: Any = Watched(writes.model, lambda scores, used: cached.append(used))
    found = compare_modes(watched, job.ids, true, writes.end, writes.never, writes.prefix)
    in_cache = cached[-len(found.free) :]
    named = job.words.target.token
    free = [
        Free(token=named(guess.token), probability=guess.probability, cached=used)
        for guess, used in zip(found.free, in_cache, strict=True)
    ]
    return DecodeModes(
        given=job.given,
        begin=job.tokens(job.begin),
        places=[
            ModePlace(
                true=named(number),
                forced=Forced(
                    token=named(guess.token),
                    probability=guess.probability,
                    true_probability=guess.true_probability or 0.0,
                ),
                free=free[place] if place < len(free) else None,
            )
            for place, (number, guess) in enumerate(zip(true, found.forced, strict=True))
        ],
        forced_passes=1,
        free_steps=len(free),
        first_difference=found.first_difference,
    )
