"""A kept pass together with its model: what the views that look at passes ask for."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..analyse.answers import asked_place, names_of
from ..errors import ClearheadError
from ..models import Model
from ..models.bert import BERT
from ..models.vit import ViT
from .core import Studio
from .inputs import Ready
from .passes import Kept
from .refusals import Unknown
from .schema import AttentionKind
from .shelf import Opened

WORDS = ("fill", "pretrain")  # tasks of a BERT that answers with words


@dataclass(frozen=True)
class Seen:
    kept: Kept
    opened: Opened

    @property
    def model(self) -> Model:
        return self.opened.model

    @property
    def key(self) -> tuple[Hashable, ...]:
        """Says as which numbers the pass was recorded."""
        return self.kept.said.id, self.kept.stamp

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors as `record` takes them."""
        return given(self.kept.ready)

    def site(self, name: str) -> Tensor:
        try:
            return self.kept.trace[name]
        except KeyError as missing:
            raise ClearheadError(str(missing.args[0])) from None

    def attention(self, kind: str) -> AttentionKind:
        found = {one.kind: one for one in self.kept.said.attention}
        if kind not in found:
            raise Unknown(f"this pass has no attention of kind '{kind}': it has {', '.join(found)}")
        return found[kind]  # pyright: ignore[reportArgumentType]

    def as_it_is(self, what: str) -> None:
        """Refuse where something was done to the model: what is computed anew would not know of it."""
        if any(change.kind != "tokens" for change in self.kept.said.changes):
            raise ClearheadError(f"{what} is of a model as it is: ask for the pass without changes")

    def place(self, wanted: int | None) -> int | None:
        """Which place is asked about; of a BERT that fills, the first blank unless given, else what `analyse` takes."""
        if wanted is not None or not (isinstance(self.model, BERT) and self.model.config.task in WORDS):
            return wanted
        assert self.kept.ready.reads is not None
        mask = self.kept.ready.reads.tok.special.get("mask")
        for place, token in enumerate(self.kept.said.tokens["tokens"]):
            if token.id == mask:
                return place
        raise ClearheadError("the text has no blank: mask a word, or say at which place")

    @property
    def scores(self) -> Tensor:
        """What the model scored: (1,numbers) or (1,L,numbers)."""
        task = getattr(self.model.config, "task", None)
        if isinstance(self.model, BERT) and task is None:
            raise ClearheadError("this BERT has no task, so it scores nothing")
        return self.site("next_sentence" if task == "next-sentence" else "logits")

    def asked(self, wanted: int | None) -> int | None:
        """The place whose scores are read, counted from 0; None where there is one answer for the whole input."""
        return asked_place(self.model, self.inputs, self.scores, self.place(wanted), 0)

    @property
    def name(self) -> Callable[[int], str]:
        """What a number that the model answers with is called here."""
        reads = self.kept.ready.reads
        if reads is None or not answers_with_tokens(self.model):
            return names_of(self.model)
        return reads.shown


def seen(studio: Studio, id: str) -> Seen:
    kept = studio.passes.get(id)
    return Seen(kept, studio.passes.opened(kept))


def given(ready: Ready) -> tuple[Tensor, ...]:
    if "segments" not in ready.options:
        return ready.tensors
    (ids,) = ready.tensors
    return ids, torch.tensor([ids.shape[1]]), ready.options["segments"]


def answers_with_tokens(model: Model) -> bool:
    return not isinstance(model, ViT) and getattr(model.config, "task", WORDS[0]) in WORDS
