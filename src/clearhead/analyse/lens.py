"""The logit lens: what the model would say if it stopped behind each block (nostalgebraist 2020).

The stream behind a block goes through the stack's last norm and the head, as only the last one does in a pass; behind
the last block this is the model's own answer. Shapes: N layers, P places, k numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..errors import ClearheadError
from ..models import Model
from ..models.vit import ViT
from ..tasks.embed import answering
from ..trace import Trace
from .answers import checked_item, checked_model, names_of, probabilities_of, scores_of
from .stream import residual_stream, stack_of


@dataclass(frozen=True)
class Lens:
    """What would be answered before the first block and behind each of the N.

    places         the tokens that are asked about; none where the model answers once for the whole input (P is 1 then)
    numbers        (N+1,P,k) the best answers, best first; names: what they are called, by number
    probabilities  (N+1,P,k) of these
    final          (N+1,P) how probable the answer of the whole model is there
    """

    places: tuple[int, ...]
    numbers: Tensor
    probabilities: Tensor
    final: Tensor
    names: dict[int, str]


def logit_lens(
    model: nn.Module, trace: Trace, places: Sequence[int] | None = None, *, count: int = 5, item: int = 0
) -> Lens:
    """Read the answers off a trace of this model that holds the sites of `stream_sites(model)`.

    places  the tokens to ask about, all unless given; negative ones count from the end
    count   how many answers are kept for each
    """
    model = checked_model(model)
    stream = residual_stream(model, trace)
    checked_item(stream[0], item)
    rows, kept = _rows(model, stream[0].shape[1], places)
    with answering(model):
        chances = [_chances(model, x[item : item + 1], rows) for x in stream]
    if type(count) is not int or count < 1:
        raise ClearheadError(f"at least one answer is asked for, not {count!r}")
    best = [one.topk(min(count, one.shape[-1])) for one in chances]
    answer = chances[-1].argmax(-1, keepdim=True)
    numbers = torch.stack([one.indices for one in best])
    name = names_of(model)
    return Lens(
        kept,
        numbers,
        torch.stack([one.values for one in best]),
        torch.stack([one.gather(-1, answer)[:, 0] for one in chances]),
        {number: name(number) for number in sorted(set(numbers.flatten().tolist()))},
    )


def _rows(model: Model, length: int, places: Sequence[int] | None) -> tuple[Tensor | None, tuple[int, ...]]:
    """Which rows of the stream are read: None where the head reads them all and answers once."""
    if _answers_once(model):
        if places is not None:
            raise ClearheadError("the model answers once for the whole input: no places can be chosen")
        return None, ()
    places = range(length) if places is None else places
    for place in places:
        if not -length <= place < length:
            raise ClearheadError(f"there is no place {place}: the input has {length} tokens")
    kept = tuple(place % length for place in places)
    if not kept:
        raise ClearheadError("no places were given to ask about")
    return torch.tensor(kept), kept


def _answers_once(model: Model) -> bool:
    return isinstance(model, ViT) or getattr(model.config, "task", None) in ("classify", "next-sentence")


def _chances(model: Model, x: Tensor, rows: Tensor | None) -> Tensor:
    """x (1,L,width), the stream behind a block -> (P,numbers) on the CPU."""
    x = x.to(model.device, model.dtype)
    norm = stack_of(model)[1].norm
    x = x if norm is None else norm(x)
    if isinstance(model, ViT):
        x = model.pooling(x)
        x = x if model.pooled_norm is None else model.pooled_norm(x)
    scores = scores_of(model, model.head(x if rows is None else x[:, rows.to(x.device)]))
    chances = probabilities_of(model, scores.reshape(-1, scores.shape[-1]))
    if chances is None:
        raise ClearheadError(
            "the model's scores are no probabilities of words or classes: there is nothing to choose from"
        )
    return chances.cpu()
