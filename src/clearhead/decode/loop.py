"""One token after the other, for many rows at once: greedy or drawn, until each row has a reason to stop.

`generate` is an iterator: after every step it tells what each row got, so that text can be shown while it is written
and an interruption loses nothing. Rows that are done leave, the others go on unchanged.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..errors import ClearheadError
from .ahead import Ahead
from .allowed import Allowed
from .pieces import Limits, Piece, Written, with_reason
from .protocol import Decoder, Rows, WritesAhead, continues, start
from .sampling import Sampling, generators

AT_ONCE = 32  # rows whose chances are computed together: those of a vocabulary are large


@torch.inference_mode()
def generate(
    model: Decoder,
    inputs: Sequence[Sequence[int]],
    limits: Limits | None = None,
    sampling: Sampling | None = None,
    *,
    seeds: Sequence[int] | None = None,
    prefix: Sequence[int] | None = None,
    allowed: Allowed | None = None,
    best: int = 0,
) -> Iterator[list[Piece]]:
    """For each step what the rows under way got. `seeds` has a number for each row: its draws depend on that alone.

    `best` is how many of the model's first choices are told with every token.
    """
    limits, sampling = limits or Limits(), sampling or Sampling()
    seeds = range(len(inputs)) if seeds is None else seeds
    if len(seeds) != len(inputs):
        raise ClearheadError(f"{len(inputs)} rows need as many seeds, not {len(seeds)}")
    written = [Written() for _ in inputs]
    random = generators(seeds)
    going = list(range(len(inputs)))
    window = Window(model, inputs, limits, prefix)
    if allowed is not None:
        allowed.check(min(window.most, default=limits.length), limits.end, limits.never)
    state = window.start()
    while going:
        logits = state.logits
        history = [window.history(row, written[row].tokens) for row in going]
        possible = without(logits, limits.never)
        if allowed is not None:  # before the filters: these must not leave only what is not allowed
            possible = _closed(possible, [allowed.next(written[row].tokens, limits.end) for row in going])
        tokens = sampling.choose(sampling.scores(possible, history), [random[row] for row in going])
        pieces = _pieces(going, tokens, logits, best)
        pieces = [
            with_reason(piece, written[piece.row].tokens, limits, window.most[piece.row], allowed) for piece in pieces
        ]
        for piece in pieces:
            written[piece.row].add(piece)
        yield pieces
        stay = [place for place, piece in enumerate(pieces) if piece.reason is None]
        if not stay:
            return
        going = [going[place] for place in stay]
        if len(stay) < len(pieces):
            state = state.select(stay)
        following = [tokens[place] for place in stay]
        if isinstance(model, WritesAhead) and sampling.plain and allowed is None and not best and not window.slides:
            ahead = Ahead(model, state, window.most, limits)
            del state  # so that whoever lends its memory sees when its rows are gone
            yield from ahead.pieces(following, going, written)
            return
        state = window.step(following, state, going, written)


class Window:
    """Steps inside the context, and on request past it: there a row starts again from its last tokens, every step."""

    def __init__(
        self, model: Decoder, inputs: Sequence[Sequence[int]], limits: Limits, prefix: Sequence[int] | None
    ) -> None:
        self.model, self.prefix = model, prefix
        self.inputs = [list(row) for row in inputs]
        self.prompts = beginnings(model, self.inputs, prefix)
        self.context = context_of(model)
        self.slides = limits.window and continues(model)
        longest = max((len(prompt) for prompt in self.prompts), default=0)
        self.room = longest + limits.length
        self.most = [limits.length] * len(self.prompts)  # how many tokens each row may get
        if self.context is not None:
            self.room = min(self.room, self.context)
            if not self.slides:
                check_prompt(longest, self.context, "or ask for a window" if continues(model) else "")
                self.most = [min(limits.length, self.context - len(prompt) + 1) for prompt in self.prompts]

    def history(self, row: int, tokens: list[int]) -> list[int]:
        return self.prompts[row] + tokens

    def start(self) -> Rows:
        inputs = [row[-self.context :] for row in self.inputs] if self.slides and self.context else self.inputs
        return start(self.model, inputs, self.prefix, self.room)

    def step(self, tokens: list[int], state: Rows, going: list[int], written: list[Written]) -> Rows:
        if self.slides and self.context is not None:
            rows = [self.history(row, written[row].tokens) for row in going]
            if any(len(row) > self.context for row in rows):
                return start(self.model, [row[-self.context :] for row in rows], None, self.room)
        self.model.step(torch.tensor(tokens, device=state.logits.device), state)
        return state


def beginnings(model: Decoder, inputs: Sequence[Sequence[int]], prefix: Sequence[int] | None) -> list[list[int]]:
    """The tokens that stand before what is written: the prompts, or what every answer to a source begins with."""
    if continues(model):
        return [list(row) for row in inputs]
    first = getattr(model, "start_token", None)
    return [([] if first is None else [first]) if prefix is None else list(prefix) for _ in inputs]


def check_prompt(longest: int, context: int, otherwise: str = "") -> None:
    if longest > context:
        advice = f"shorten it, {otherwise}" if otherwise else "shorten it"
        raise ClearheadError(f"a prompt of {longest} tokens doesn't fit the context of {context}: {advice}")


def context_of(model: Decoder) -> int | None:
    """For how many tokens a model has positions; None where there is no such limit."""
    return getattr(model.config, "context", None)  # pyright: ignore[reportAttributeAccessIssue]


def without(logits: Tensor, never: frozenset[int]) -> Tensor:
    """-inf for tokens that are never written."""
    if not never:
        return logits
    return logits.index_fill(-1, torch.tensor(sorted(never), device=logits.device), -math.inf)


def _closed(scores: Tensor, following: list[list[int]]) -> Tensor:
    """-inf for every token that may not follow."""
    shut = torch.full_like(scores, -math.inf)
    for row, tokens in enumerate(following):
        at = torch.tensor(tokens, device=scores.device, dtype=torch.long)
        shut[row, at] = scores[row, at]
    return shut


def _pieces(going: list[int], tokens: list[int], logits: Tensor, best: int) -> list[Piece]:
    picked, chosen, first = torch.tensor(tokens, device=logits.device), [], list[tuple[tuple[int, float], ...]]()
    for some, own in zip(logits.split(AT_ONCE), picked.split(AT_ONCE), strict=True):
        logprobs = some.float().log_softmax(-1)
        chosen.append(logprobs.gather(-1, own[:, None])[:, 0])
        if best:
            values, indices = (found.tolist() for found in logprobs.topk(min(best, logits.shape[-1])))
            first += [tuple(zip(i, v, strict=True)) for i, v in zip(indices, values, strict=True)]
    return [
        Piece(row, token, logprob, best=choices)
        for row, token, logprob, choices in zip(
            going, tokens, torch.cat(chosen).tolist(), first or [()] * len(going), strict=True
        )
    ]
