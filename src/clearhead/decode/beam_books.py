"""The books of many beam searches as tensors of fixed shapes: a step is tensor code alone, so it compiles whole.

The rules are those of `beam.py`, and so are the answers. A search that is over has no beam of a probability above zero:
whatever is computed for it from then on can neither go on nor finish.

Shapes: S searches, k beams, C candidates of a step, T tokens that there is room for, V words of the vocabulary.
"""

import math
import sys
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .beam_rules import Beams, Hypothesis


@dataclass
class Rules:
    """What a search is asked for, as tensors: others of the same shapes need no other code.

    barred, ends    (V,) bool: tokens that are never written, tokens that end a sentence
    norms, hopes    (T+1,) for each length: what a score's sum is divided by, in the end and in a comparison under way
    last            (T+1,) bool: sentences of this length are over
    hasty           (1,) bool: as many finished sentences as beams are enough
    """

    barred: Tensor
    ends: Tensor
    norms: Tensor
    hopes: Tensor
    last: Tensor
    hasty: Tensor

    @classmethod
    def blank(cls, room: int, vocab: int, device: torch.device) -> "Rules":
        barred, ends = (torch.zeros(vocab, dtype=torch.bool, device=device) for _ in range(2))
        norms, hopes = (torch.ones(room + 1, dtype=torch.float64, device=device) for _ in range(2))
        last = torch.zeros(room + 1, dtype=torch.bool, device=device)
        return cls(barred, ends, norms, hopes, last, last[:1].clone())

    def set(self, beams: Beams, end: frozenset[int], never: frozenset[int]) -> None:
        for words, chosen in ((self.barred, never), (self.ends, end)):
            words.zero_()
            words[sorted(chosen)] = True
        lengths = range(1, beams.length + 1)
        hoped = [beams.hoped_length(length) for length in lengths]
        for table, compared in ((self.norms, lengths), (self.hopes, hoped)):
            powers = [float(length**beams.length_penalty) for length in compared]
            table[1 : beams.length + 1] = torch.tensor(powers, dtype=torch.float64)
        self.last.zero_()
        self.last[beams.length :] = True
        self.hasty.fill_(beams.early_stopping is True)


@dataclass
class Books:
    """sums      (S,k) summed log probabilities of the sentences under way, the best first; -inf where there is none
    written      (S,k,T) their tokens
    scores, logprobs, lengths, ended   (S,k) and (S,k,T): the finished sentences, the best first; -inf: none yet
    step         (1,) how many tokens the next candidates have
    tokens, rows (S*k,) what goes on: each row's new token, and the row that it grew from
    going        (1,) bool, whether any search is under way
    candidates   how many continuations a step looks at
    """

    rules: Rules
    sums: Tensor
    written: Tensor
    scores: Tensor
    logprobs: Tensor
    lengths: Tensor
    ended: Tensor
    step: Tensor
    tokens: Tensor
    rows: Tensor
    going: Tensor
    candidates: int

    @classmethod
    def blank(cls, searches: int, beams: int, room: int, candidates: int, vocab: int, device: torch.device) -> "Books":
        sums, scores, logprobs = (torch.zeros(searches, beams, dtype=torch.float64, device=device) for _ in range(3))
        written, ended = (torch.zeros(searches, beams, room, dtype=torch.long, device=device) for _ in range(2))
        step, going = written.new_ones(1), torch.ones(1, dtype=torch.bool, device=device)
        tokens, rows = (written.new_zeros(searches * beams) for _ in range(2))  # not views of one: both are written
        lengths = written.new_zeros(searches, beams)
        rules = Rules.blank(room, vocab, device)
        return cls(rules, sums, written, scores, logprobs, lengths, ended, step, tokens, rows, going, candidates)

    def begin(self, count: int) -> None:
        """The first `count` searches have one sentence each, without a token; the others have none."""
        self.sums.fill_(-math.inf)
        self.sums[:count, 0] = 0.0
        self.scores.fill_(-math.inf)
        self.lengths.zero_()
        self.step.fill_(1)

    def changed(self) -> tuple[Tensor, ...]:
        """Whatever a step writes, but for `rows`, which it does not read."""
        finished = (self.scores, self.logprobs, self.lengths, self.ended)
        return (self.sums, self.written, *finished, self.step, self.tokens, self.going)

    def take(self, logits: Tensor) -> None:
        """One step: logits (S*k,V) of what may come next, or (S,V) where each search has its first sentence alone."""
        sums, beams, tokens = self._ranked(logits)
        alive = sums > -math.inf
        over = self.rules.ends[tokens] | self.rules.last[self.step]
        self._finish(sums, beams, tokens, alive & over)
        self._go_on(sums, beams, tokens, alive & ~over)
        self.step.add_(1)

    def _ranked(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The best continuations, (S,C) each: summed log probabilities, the beams they grow from, tokens."""
        searches, most = len(self.sums), min(self.candidates, logits.shape[-1])
        best, tokens = logits.masked_fill(self.rules.barred, -math.inf).topk(most)
        chances = logits.float().log_softmax(-1).gather(-1, tokens).masked_fill(best == -math.inf, -math.inf)
        before = self.sums[:, : len(logits) // searches].reshape(-1, 1)
        sums, order = (before + chances).view(searches, -1).sort(descending=True, stable=True)
        beams, tokens = order // most, tokens.view(searches, -1).gather(1, order)
        missing = max(0, self.candidates - sums.shape[1])  # a tiny vocabulary has fewer
        sums = F.pad(sums[:, : self.candidates], (0, missing), value=-math.inf)
        beams, tokens = (F.pad(part[:, : self.candidates], (0, missing)) for part in (beams, tokens))
        return sums, beams, tokens

    def _finish(self, sums: Tensor, beams: Tensor, tokens: Tensor, ending: Tensor) -> None:
        """Of the first k those that end join the finished ones, of which the k best stay."""
        k = self.sums.shape[1]
        sums, beams, tokens, ending = sums[:, :k], beams[:, :k], tokens[:, :k], ending[:, :k]
        scores = (sums / self.rules.norms[self.step]).clamp(min=-sys.float_info.max)  # -inf is for what there is not
        scores = torch.cat([self.scores, scores.masked_fill(~ending, -math.inf)], 1)
        scores, kept = (part[:, :k] for part in scores.sort(descending=True, stable=True))
        ended = torch.cat([self.ended, self._grown(beams, tokens)], 1)
        self.ended.copy_(ended.gather(1, kept[..., None].expand_as(self.ended)))
        self.logprobs.copy_(torch.cat([self.logprobs, sums], 1).gather(1, kept))
        self.lengths.copy_(torch.cat([self.lengths, self.step.expand_as(tokens)], 1).gather(1, kept))
        self.scores.copy_(scores)

    def _go_on(self, sums: Tensor, beams: Tensor, tokens: Tensor, under_way: Tensor) -> None:
        """The first k that do not end, unless their search is over: then none of them does."""
        searches, k = self.sums.shape
        chosen = (~under_way).int().argsort(dim=1, stable=True)[:, :k]
        sums, beams, tokens = (part.gather(1, chosen) for part in (sums, beams, tokens))
        sums = sums.masked_fill(~under_way.gather(1, chosen), -math.inf)
        worst = self.scores[:, -1:]
        hopeless = sums[:, :1] / self.rules.hopes[self.step] <= worst
        sums = sums.masked_fill((worst > -math.inf) & (self.rules.hasty | hopeless), -math.inf)
        first = torch.arange(0, searches * k, k, device=sums.device)[:, None]
        self.written.copy_(self._grown(beams, tokens))
        self.sums.copy_(sums)
        self.tokens.copy_(tokens.flatten())
        self.rows.copy_((first + beams).flatten())
        self.going.copy_((sums > -math.inf).any()[None])

    def _grown(self, beams: Tensor, tokens: Tensor) -> Tensor:
        """The sentences of these beams (S,n) with these tokens behind them: (S,n,T)."""
        places = torch.arange(self.written.shape[-1], device=beams.device)
        before = self.written.gather(1, beams[..., None].expand(-1, -1, len(places)))
        return torch.where(places == self.step - 1, tokens[..., None], before)

    def finished(self, count: int, length: int) -> list[list[Hypothesis]]:
        """For the first `count` searches what they found, the best first; no sentence has more than `length` tokens."""
        parts = (self.ended[:count, :, :length], self.lengths[:count], self.scores[:count], self.logprobs[:count])
        return [
            [
                Hypothesis(tuple(tokens[:size]), score, logprob, -1)
                for tokens, size, score, logprob in zip(*search, strict=True)
                if score > -math.inf
            ]
            for search in zip(*(part.tolist() for part in parts), strict=True)
        ]
