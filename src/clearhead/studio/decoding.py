"""Decoding with eyes open: `decode` writes, and what the model scored at every step is kept for the page.

The distributions are computed by the same functions that chose from them: `without` and `Sampling.scores`.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..decode import Limits, Piece, Sampling, TextStream, generate
from ..decode.loop import without
from ..errors import ClearheadError
from ..ops import one_hot
from .decode_schema import (
    Choice,
    CrossRows,
    Decoded,
    DecodeSettings,
    DecodeStep,
    Mode,
)
from .writers import Writing

BEST = 20
LONGEST = 256  # tokens that are written for one request
LONGEST_BEAM = 128
MOST_BEAMS = 8
UNLESS_GIVEN = 40
TAKEN = {
    "greedy": ("length",),
    "sample": ("length", "temperature", "top_k", "top_p", "seed"),
    "beam": ("length", "beams", "length_penalty"),
}

Lock = AbstractContextManager[Any]


class Watched:
    """A model as decoding sees it. `look` is shown the scores and the cache's length after every start and step."""

    def __init__(self, model: Any, look: Callable[[Tensor, int], None]) -> None:
        self._model, self._look = model, look

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, *inputs: Any) -> Any:
        return self._model(*inputs)

    def start(self, inputs: Tensor, lengths: Tensor | None = None, **options: Any) -> Any:
        state = self._model.start(inputs, lengths, **options)
        self._look(state.logits, state.cache.used)
        return state

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        logits = self._model.step(tokens, state)
        self._look(logits, state.cache.used)
        return logits


def check_settings(mode: Mode, settings: DecodeSettings) -> None:
    given = settings.model_dump(exclude_none=True)
    for name in given:
        if name not in TAKEN[mode]:
            raise ClearheadError(f"{mode} decoding takes no {name}: it takes {', '.join(TAKEN[mode])}")
    longest = LONGEST_BEAM if mode == "beam" else LONGEST
    if settings.length is not None and not 1 <= settings.length <= longest:
        raise ClearheadError(f"1 to {longest} tokens are written here by {mode} decoding, not {settings.length}")
    if settings.beams is not None and not 1 <= settings.beams <= MOST_BEAMS:
        raise ClearheadError(f"1 to {MOST_BEAMS} beams are drawn here, not {settings.beams}")
    if settings.seed is not None and not 0 <= settings.seed < 2**63:
        raise ClearheadError(f"a seed is a whole number from 0 to 2^63 - 1, not {settings.seed}")


def length_of(job: Writing, mode: Mode, settings: DecodeSettings) -> int:
    """As many as asked for; else what fits a translation or a glance, within the context."""
    if settings.length is not None:
        return settings.length
    wanted = UNLESS_GIVEN if job.writes.continues else 2 * len(job.ids) + 10
    room = job.writes.room(job.ids)
    return max(1, min(wanted, LONGEST_BEAM if mode == "beam" else LONGEST, wanted if room is None else room))


def sampling_of(mode: Mode, settings: DecodeSettings) -> Sampling:
    if mode == "greedy":
        return Sampling()
    temperature = 1.0 if settings.temperature is None else settings.temperature
    if temperature == 0:
        raise ClearheadError("temperature 0 always takes the best token: that is greedy decoding")
    return Sampling(temperature, settings.top_k, settings.top_p)


# -------------------------------------------------------------------------------- one token after the other


def steps(job: Writing, mode: Mode, settings: DecodeSettings, lock: Lock) -> Iterator[DecodeStep]:
    """The tokens as they are written. The lock is held for a step at a time: nobody waits for a slow reader."""
    writes, sampling, shown = job.writes, sampling_of(mode, settings), _Last()
    limits = Limits(length_of(job, mode, settings), writes.end, writes.never)
    written = generate(
        Watched(writes.model, shown.look),  # pyright: ignore[reportArgumentType]
        [job.ids],
        limits,
        sampling,
        seeds=[settings.seed or 0],
        prefix=writes.prefix,
    )
    stream = TextStream(writes.target, before=job.ids if writes.continues else ())
    tokens: list[int] = []
    while True:
        with lock, torch.inference_mode():
            pieces = next(written, None)
            if pieces is None:
                return
            history = [*(job.ids if writes.continues else job.begin), *tokens]
            told = choices(job, sampling, shown.scores[0], history, pieces[0].token)
        tokens.append(pieces[0].token)
        yield _step(job, pieces[0], len(tokens), told, shown.cached, stream)


class _Last:
    """The scores that the next token is chosen by, and how many tokens the cache held."""

    scores: Tensor
    cached: int

    def look(self, scores: Tensor, cached: int) -> None:
        self.scores, self.cached = scores, cached


def _step(job: Writing, piece: Piece, number: int, told: list[Choice], cached: int, stream: TextStream) -> DecodeStep:
    new = "" if piece.reason == "end" else stream.add(piece.token)
    if piece.reason is not None:
        new += stream.finish()
    return DecodeStep(
        step=number,
        token=job.words.target.token(piece.token),
        logprob=piece.logprob,
        choices=told,
        cached=cached,
        new=new,
        reason=piece.reason,
    )


def choices(job: Writing, sampling: Sampling, logits: Tensor, history: list[int], written: int) -> list[Choice]:
    """logits (V,) -> the likeliest tokens before and after the filters, and the one that was written."""
    own = logits.float().log_softmax(-1)
    possible = without(logits[None], job.writes.never)
    after = _after(sampling, possible, history)
    cut = _cut(sampling, possible, history)
    numbers = own.topk(min(BEST, len(own))).indices.tolist()
    numbers += [] if written in numbers else [written]
    return [
        Choice(
            id=number,
            text=job.words.target.shown(number),
            logprob=own[number].item(),
            probability=own[number].exp().item(),
            after=after[number].item(),
            cut_by=next((name for name, gone in cut if gone[number]), None),  # pyright: ignore[reportArgumentType]
        )
        for number in numbers
    ]


def _after(sampling: Sampling, possible: Tensor, history: list[int]) -> Tensor:
    scores = sampling.scores(possible, [history])[0]
    return one_hot(scores.argmax(), len(scores)) if sampling.greedy else scores.softmax(-1)


def _cut(sampling: Sampling, possible: Tensor, history: list[int]) -> list[tuple[str, Tensor]]:
    """Which tokens each filter leaves nothing of, in the order in which they act."""
    found = [("never", possible[0].isneginf())]
    if sampling.greedy:
        return [*found, ("greedy", _after(sampling, possible, history) == 0)]
    for name, so_far in (("top_k", replace(sampling, top_p=None)), ("top_p", sampling)):
        found.append((name, so_far.scores(possible, [history])[0].isneginf()))
    return found


def whole(job: Writing, mode: Mode, said: list[DecodeStep], cross: CrossRows | None) -> Decoded:
    numbers = [step.token.id for step in said]
    return Decoded(
        mode=mode,
        given=job.given,
        begin=job.tokens(job.begin),
        text=job.text(numbers),
        tokens=[step.token for step in said],
        reason=said[-1].reason if said else None,
        steps=said,
        tree=None,
        cross=cross,
        notes=[job.words.note] if job.words.note else [],
    )
