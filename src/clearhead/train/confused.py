"""Soft targets from the classes that a model itself confuses: a cat is rather a dog than a ship.

Online label smoothing (Zhang et al. 2021) keeps what the model has lately said of each class on the mean, and has it
learn that beside the labels. There only right answers to whole pictures count. Here all do, and pictures may be mixed:
an answer belongs to each of its labels by their shares t, and what the classes of the other picture have added to it is
taken off again. Of what belongs to a class, r = sum(t²) / sum(t) is its own, and the rest is the mean answer to others.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from .companions import Companion

KEPT = 0.99  # of what was said so far, at every update


class Confused(Companion):
    name = "confused"
    said: Tensor
    seen: Tensor
    squares: Tensor

    def __init__(self, classes: int) -> None:
        """At first each class is taken for itself alone."""
        super().__init__()
        self.register_buffer("said", torch.eye(classes))
        self.register_buffer("seen", torch.ones(classes))
        self.register_buffer("squares", torch.ones(classes))

    def answers(self) -> Tensor:
        """What is said of each class on the mean, (classes, classes): rows of probabilities."""
        usual = self.said.sum(0) / self.seen.sum()  # each class in it by its share of all that was seen
        foreign = (1 - self.squares / self.seen) / (1 - self.seen / self.seen.sum())
        rows = (self.said / self.seen.unsqueeze(1) - torch.outer(foreign, usual)).clamp(min=0.0)
        return rows / rows.sum(1, keepdim=True)

    @torch.no_grad()
    def soft(self, labels: Tensor, scores: Tensor) -> Tensor:
        """Targets (B, classes) from labels, (B,) or their shares (B, classes); what `scores` say is remembered."""
        with torch.autocast(scores.device.type, enabled=False):
            shares = F.one_hot(labels, len(self.seen)).float() if labels.ndim == 1 else labels.float()
            targets = shares @ self.answers()
            self.said.mul_(KEPT).add_(shares.T @ scores.float().softmax(-1))
            self.seen.mul_(KEPT).add_(shares.sum(0))
            self.squares.mul_(KEPT).add_(shares.square().sum(0))
        return targets
