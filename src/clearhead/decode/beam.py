"""Beam search: several sentences at once, the best of them followed, the finished ones compared by length.

The rules are those people know from transformers, so that the same weights give the same sentences and scores: of each
step's 2k best continuations the first k may finish, the best k unfinished go on; a finished one scores its summed log
probability / length^penalty; `early_stopping` says when k finished ones are enough. On request the whole search tree
is kept: every continuation that was considered, its score and what became of it. A decoder that follows beams by itself
(`Captured`) is left to it, unless somebody wants to see the tree or says what may follow.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..errors import ClearheadError
from .allowed import Allowed
from .beam_rules import Beams, Hypothesis
from .beams_ahead import searched_ahead
from .loop import beginnings, check_prompt, context_of
from .protocol import Decoder, FollowsBeams, Rows, start


@dataclass
class Node:
    """One hypothesis of the tree: its parent's number, its last token, its summed log probability and its score.

    fate  "followed"  went on to the next step
          "pruned"    others were better
          "finished"  complete, and among the answers
          "beaten"    complete, but pushed out by better ones
          "late"      complete, but not among the step's first k
          "open"      still under way when the search ended
    """

    parent: int | None
    token: int
    step: int
    logprob: float
    score: float
    fate: str


@dataclass(frozen=True)
class _Beam:
    """A sentence under way; `parent` is the place that the beam it grew from had among the beams before."""

    tokens: tuple[int, ...] = ()
    logprob: float = 0.0
    parent: int = 0
    node: int | None = None


@dataclass
class Search:
    """The search for one source: what is under way, what is finished (best first), and the tree if it is kept."""

    beams: Beams
    end: frozenset[int]
    never: frozenset[int] = frozenset()
    allowed: Allowed | None = None
    keep_tree: bool = False
    running: list[_Beam] = field(default_factory=lambda: [_Beam()])
    finished: list[Hypothesis] = field(default_factory=list)
    tree: list[Node] = field(default_factory=list)
    done: bool = False

    def take(self, candidates: Sequence[tuple[float, int, int]]) -> None:
        """One step: (summed log probability, beam, token), the best first."""
        k, step = self.beams.count, len(self.running[0].tokens) + 1
        running: list[_Beam] = []
        finished: list[Hypothesis] = []
        for place, (logprob, beam, token) in enumerate(candidates):
            if len(running) == k and place >= k and not self.keep_tree:
                break  # nothing behind can go on or finish
            parent = self.running[beam]
            score = self.beams.score(logprob, step)
            if self._ends(parent.tokens, token, step):
                fate = "finished" if place < k else "late"
                node = self._node(parent, token, step, logprob, score, fate)
                if place < k:
                    finished.append(Hypothesis((*parent.tokens, token), score, logprob, node))
            else:
                fate = "followed" if len(running) < k else "pruned"
                node = self._node(parent, token, step, logprob, score, fate)
                if len(running) < k:
                    running.append(_Beam((*parent.tokens, token), logprob, beam, node))
        if finished:
            self._merge(finished)
        self.running = running
        self.done = self._settled(step)
        if self.done:
            self._mark(running, "open")

    def _ends(self, before: tuple[int, ...], token: int, step: int) -> bool:
        if token in self.end or step >= self.beams.length:
            return True
        return self.allowed is not None and not self.allowed.next((*before, token))

    def _merge(self, new: list[Hypothesis]) -> None:
        ranked = sorted([*self.finished, *new], key=lambda hypothesis: -hypothesis.score)
        self.finished = ranked[: self.beams.count]
        self._mark(ranked[self.beams.count :], "beaten")

    def _settled(self, step: int) -> bool:
        if not self.running:
            return True
        if len(self.finished) < self.beams.count:
            return False
        if self.beams.early_stopping is True:
            return True
        hoped = self.beams.score(self.running[0].logprob, self.beams.hoped_length(step))
        return hoped <= self.finished[-1].score

    def _node(self, parent: _Beam, token: int, step: int, logprob: float, score: float, fate: str) -> int:
        if self.keep_tree:
            self.tree.append(Node(parent.node, token, step, logprob, score, fate))
        return len(self.tree) - 1

    def _mark(self, leaves: Sequence[_Beam | Hypothesis], fate: str) -> None:
        for leaf in leaves:
            if self.keep_tree and leaf.node is not None:
                self.tree[leaf.node].fate = fate


@torch.inference_mode()
def beam_search(
    model: Decoder,
    inputs: Sequence[Sequence[int]],
    beams: Beams | None = None,
    *,
    end: frozenset[int] = frozenset(),
    never: frozenset[int] = frozenset(),
    prefix: Sequence[int] | None = None,
    allowed: Allowed | None = None,
    tree: bool = False,
) -> list[Search]:
    """Search for every prompt or source, all of them together; each ends when its own search has."""
    beams = beams or Beams()
    longest = max((len(prompt) for prompt in beginnings(model, inputs, prefix)), default=0)
    _check_room(longest, beams.length, context_of(model))
    if allowed is not None:
        allowed.check(beams.length, end, never)
    if isinstance(model, FollowsBeams) and allowed is None and not tree:
        following = model.follow(start(model, inputs, prefix, longest), beams, end, never)
        found = searched_ahead(following, beams.length)
        return [Search(beams, end, never, running=[], finished=one, done=True) for one in found]
    searches = [Search(beams, end, never, allowed, tree) for _ in inputs]
    state, going, width = start(model, inputs, prefix, longest + beams.length), searches, 1
    while going:
        candidates = _continuations(state.logits, going, width)
        for search, found in zip(going, candidates, strict=True):
            search.take(found)
        state = _follow(model, state, going, width)
        going, width = [search for search in going if not search.done], beams.count
    return searches


def _check_room(longest: int, length: int, context: int | None) -> None:
    """A search compares sentences of all lengths, so all of them must fit."""
    if context is None:
        return
    check_prompt(longest, context)
    if longest + length - 1 > context:
        raise ClearheadError(
            f"{longest} tokens and {length} more don't fit the context of {context}: "
            f"ask for at most {context - longest + 1}"
        )


def _continuations(logits: Tensor, going: list[Search], width: int) -> list[list[tuple[float, int, int]]]:
    """Each search's best continuations.

    A search has `width` rows of the logits, its beams first: where there are fewer beams the rest is filler.
    """
    logprobs = logits.float().log_softmax(-1)
    if going[0].never:  # in place: there is no second copy of so many numbers
        logprobs.index_fill_(1, torch.tensor(sorted(going[0].never), device=logits.device), -math.inf)
    if going[0].allowed is not None:
        logprobs = _closed(logprobs, going, width)
    wanted = going[0].beams.candidates(len(going[0].end))
    values, tokens = logprobs.topk(min(wanted, logprobs.shape[-1]))
    so_far = [[beam.logprob for beam in search.running] for search in going]
    so_far = [[*sums, *[-math.inf] * (width - len(sums))] for sums in so_far]
    before = torch.tensor(so_far, dtype=torch.float64, device=logits.device).flatten()[:, None]
    sums, order = (before + values).view(len(going), -1).sort(descending=True, stable=True)
    sums, order = sums[:, :wanted], order[:, :wanted]
    named, beam = tokens.view(len(going), -1).gather(1, order), order // values.shape[1]
    told = torch.stack([sums, beam.double(), named.double()], -1).tolist()  # one answer of the device, not three
    return [[(total, int(beam), int(token)) for total, beam, token in row if total > -math.inf] for row in told]


def _follow(model: Decoder, state: Rows, searches: list[Search], width: int) -> Rows:
    """The rows of the beams that go on, with their new tokens. Every search keeps as many rows as any other."""
    rows, tokens = [], []
    for place, search in enumerate(searches):
        if not search.done:
            beams = search.running + search.running[:1] * (search.beams.count - len(search.running))
            rows += [place * width + beam.parent for beam in beams]
            tokens += [beam.tokens[-1] for beam in beams]
    if rows:
        if len(rows) != len(state):
            state = state.select(rows)
        elif rows != list(range(len(state))):
            state.reorder(rows)
        model.step(torch.tensor(tokens, device=state.logits.device), state)
    return state


def _closed(logits: Tensor, going: list[Search], width: int) -> Tensor:
    """-inf for every token that may not follow."""
    shut = torch.full_like(logits, -math.inf)
    for place, search in enumerate(going):
        for number, beam in enumerate(search.running):
            following = search.allowed.next(beam.tokens, search.end) if search.allowed is not None else []
            at = torch.tensor(following, device=logits.device, dtype=torch.long)
            shut[place * width + number, at] = logits[place * width + number, at]
    return shut
