"""`generate`: a text goes on, or is answered, token by token; every draw has a seed of its own."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from ..decode import Allowed, Limits, Modes, Piece, Sampling, TextStream, Written, compare_modes
from ..decode import generate as decoded
from ..errors import ClearheadError
from .embed import answering
from .writer import Writer, writer


@dataclass(frozen=True)
class Continuation:
    """What was written behind, or in answer to, prompt number `prompt` in its draw number `sample` (both from 0).

    tokens    as they were chosen, an end token among them; `pieces` is what they stand for
    logprobs  the model's own, before any filter; `best` are its first choices at each token, if they were asked for
    reason    "end" (it ended by itself), "stop" (a stop string), "length", "context" (the model can't hold more),
              "closed" (one of the choices is complete), "interrupted"
    seconds   until its last token was there, together with whatever ran beside it
    """

    prompt: int
    sample: int
    text: str
    tokens: tuple[int, ...]
    pieces: tuple[str, ...]
    logprobs: tuple[float, ...]
    best: tuple[tuple[tuple[str, float], ...], ...]
    reason: str
    seconds: float

    @property
    def logprob(self) -> float:
        return sum(self.logprobs)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while texts were being written: `results` is what the task would return, with what there is of them."""

    def __init__(self, results: Any) -> None:
        super().__init__()
        self.results = results


@dataclass(frozen=True)
class Manner:
    """How to write: everything but what to go on from. `cut` may end a text: it says where, once it can."""

    sampling: Sampling
    length: int = 64
    samples: int = 1
    seed: int = 0
    stop: tuple[str, ...] = ()
    window: bool = False
    logprobs: int = 0
    allowed: Allowed | None = None
    batch: int = 16
    cut: Callable[[str], int | None] = lambda text: None

    def __post_init__(self) -> None:
        for name, least in (("length", 1), ("samples", 1), ("batch", 1), ("seed", 0), ("logprobs", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ClearheadError(f"{name} must be a whole number of at least {least}, not {value!r}")
        if self.seed + self.samples > 2**63:
            raise ClearheadError(f"a seed is a whole number from 0 to 2^63 - 1, not {self.seed}")
        if any(not text for text in self.stop):
            raise ClearheadError("a stop string is empty")


def generate(
    model: nn.Module,
    prompts: str | Sequence[str],
    *,
    samples: int = 1,
    length: int = 64,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float = 1.0,
    seed: int = 0,
    stop: str | Sequence[str] = (),
    window: bool = False,
    logprobs: int = 0,
    choices: Sequence[str] | None = None,
    batch: int = 16,
    on_text: Callable[[int, str], None] = lambda row, text: None,
    on_end: Callable[[int], None] = lambda row: None,
) -> list[Continuation]:
    """Go on with each prompt (GPT) or answer it (an encoder-decoder): its samples in order, prompt by prompt.

    temperature  0 takes the best token always; 1, from the model's own chances, if samples or a filter are asked for
    seed         sample n of every prompt draws with seed + n, whatever stands beside it
    stop         strings that end a text; they are no part of it and may straddle tokens
    window       beyond the context the model sees its last tokens alone, instead of ending there
    logprobs     how many of the model's first choices are told with every token
    choices      the only texts that may be written
    batch        how many texts run together
    on_text      called with (row, new text) as text comes, in whole characters; row is a result's place in the list
    on_end       called with the row of a text that is finished
    Ctrl-C raises `Interrupted`, a KeyboardInterrupt that has what was written so far.
    """
    writes = writer(model)
    manner = Manner(
        sampling_of(temperature, top_k, top_p, min_p, repetition_penalty, samples=samples),
        length=length,
        samples=samples,
        seed=seed,
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        window=window,
        logprobs=logprobs,
        allowed=None if choices is None else Allowed(writes.target.ids(text, special=False) for text in choices),
        batch=batch,
    )
    given = [prompts] if isinstance(prompts, str) else list(prompts)
    return written(writes, [writes.ids(text) for text in given], manner, on_text, on_end)


def sampling_of(
    temperature: float | None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float = 1.0,
    *,
    samples: int = 1,
) -> Sampling:
    """The filters together; without a temperature it is 1 where something is to be drawn, else 0."""
    draws = samples != 1 or any(value is not None for value in (top_k, top_p, min_p))
    chosen = float(draws) if temperature is None else temperature
    sampling = Sampling(chosen, top_k, top_p, min_p, repetition_penalty)
    if draws and sampling.greedy:
        raise ClearheadError("temperature 0 always takes the best token: samples, top_k, top_p and min_p need more")
    return sampling


def written(
    writes: Writer,
    rows: list[list[int]],
    manner: Manner,
    on_text: Callable[[int, str], None] = lambda row, text: None,
    on_end: Callable[[int], None] = lambda row: None,
) -> list[Continuation]:
    """What `generate` does, from numbers on."""
    _check_fits(writes, rows, manner)
    texts = [_Text(writes, manner, n, sample, ids) for n, ids in enumerate(rows) for sample in range(manner.samples)]
    try:
        with answering(writes.model):
            for first in range(0, len(texts), manner.batch):
                together = texts[first : first + manner.batch]
                for place, new, ended in _together(writes, manner, together):
                    if new:
                        on_text(first + place, new)
                    if ended:
                        on_end(first + place)
    except KeyboardInterrupt:
        raise Interrupted([text.result() for text in texts]) from None
    return [text.result() for text in texts]


def _check_fits(writes: Writer, rows: list[list[int]], manner: Manner) -> None:
    """Before any work: a prompt that doesn't fit would cost the others their answers."""
    if manner.window and not writes.continues:
        raise ClearheadError(f"a window is for models that go on with a text: a {writes.model.family} answers it")
    for number, ids in enumerate(rows, start=1):
        if writes.context is not None and len(ids) > writes.context and not manner.window:
            which = "the prompt" if len(rows) == 1 else f"prompt {number}"
            way_out = "shorten it, or ask for a window (--window)" if writes.continues else "shorten it"
            raise ClearheadError(f"{which} has {len(ids)} tokens and the context is {writes.context}: {way_out}")


def _together(writes: Writer, manner: Manner, texts: list["_Text"]) -> Iterator[tuple[int, str, bool]]:
    """Write these texts beside each other: (place, new text, whether it was the last) for every token."""
    limits = Limits(manner.length, writes.end, writes.never, lambda row, tokens: texts[row].ends(tokens), manner.window)
    begun = time.perf_counter()
    steps = decoded(
        writes.model,
        [text.given for text in texts],
        limits,
        manner.sampling,
        seeds=[manner.seed + text.sample for text in texts],
        prefix=writes.prefix,
        allowed=manner.allowed,
        best=manner.logprobs,
    )
    for pieces in steps:
        for piece in pieces:
            new = texts[piece.row].add(piece, time.perf_counter() - begun)
            yield piece.row, new, piece.reason is not None


class _Text:
    """One text under way."""

    def __init__(self, writes: Writer, manner: Manner, prompt: int, sample: int, given: list[int]) -> None:
        self.writes, self.manner, self.prompt, self.sample, self.given = writes, manner, prompt, sample, given
        self._stream = TextStream(writes.target, manner.stop, given if writes.continues else ())
        self._written, self._seconds, self._new = Written(), 0.0, ""
        self._end: int | None = None

    def ends(self, tokens: list[int]) -> bool:
        """Whether the newest token is the last, for a reason that decoding does not know of."""
        self._new += self._stream.add(tokens[-1])
        self._end = self.manner.cut(self._stream.text)
        return self._stream.stopped is not None or self._end is not None

    def add(self, piece: Piece, seconds: float) -> str:
        """Keep a token that was chosen; what it adds to the text for certain."""
        self._written.add(piece)
        self._seconds = seconds
        if piece.reason == "closed":  # then `ends` was not asked
            self._new += self._stream.add(piece.token)
        if piece.reason is not None:
            self._new += self._stream.finish()
        new, self._new = self._new, ""
        return new

    def result(self) -> Continuation:
        kept, pieces = self._written, self.writes.pieces
        full = kept.reason == "length" and len(kept.tokens) < self.manner.length
        best = [tuple(zip(pieces([t for t, _ in b]), (p for _, p in b), strict=True)) for b in kept.best]
        return Continuation(
            self.prompt,
            self.sample,
            self._stream.text[: self._end],
            tuple(kept.tokens),
            pieces(kept.tokens),
            tuple(kept.logprobs),
            tuple(best) if self.manner.logprobs else (),
            "context" if full else kept.reason or "interrupted",
            self._seconds,
        )


@dataclass(frozen=True)
class Lesson:
    """Teacher forcing beside testing, with the tokens as a person reads them."""

    modes: Modes
    target: tuple[str, ...]
    forced: tuple[str, ...]
    free: tuple[str, ...]


def teach(model: nn.Module, given: str, target: str) -> Lesson:
    """Both modes on a prompt and its true continuation, or a source and its true translation."""
    writes = writer(model)
    true = writes.target.ids(target, special=False)
    if not true:
        raise ClearheadError("the target is empty: there is nothing to compare with")
    if not writes.continues and writes.end:
        true.append(min(writes.end))
    ids = writes.ids(given)
    _check_fits(writes, [ids], Manner(Sampling()))
    room = writes.room(ids)
    if room is not None and len(true) > room:
        raise ClearheadError(f"a target of {len(true)} tokens doesn't fit: the context has room for {room}")
    with answering(writes.model):
        modes = compare_modes(writes.model, ids, true, writes.end, writes.never, writes.prefix)
    forced, free = ([guess.token for guess in guesses] for guesses in (modes.forced, modes.free))
    return Lesson(modes, *map(writes.pieces, (true, forced, free)))
