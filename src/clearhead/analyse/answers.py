"""What a pass answers: the scores at the place that is asked about, what they are called, how probable each is."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ClearheadError
from ..models import Model
from ..models.bert import BERT
from ..models.vit import ViT
from ..runs import tokenizer
from ..runs.labels import labels
from ..trace import underneath

# Which input holds the tokens that are answered for, and which their rows' true lengths, where it is given.
ANSWERED = {"gpt": (0, 1), "bert": (0, 1), "transformer": (1, 3), "t5": (1, 3)}


def checked_model(model: nn.Module) -> Model:
    """The clearhead model underneath; another module is refused."""
    model = underneath(model)
    if not isinstance(model, Model):
        raise ClearheadError(f"a clearhead model is needed, not a {type(model).__name__}")
    return model


def scores_of(model: Model, output: Any) -> Tensor:
    """The scores (B,numbers) or (B,L,numbers) in what the model returned."""
    if isinstance(model, BERT) and model.config.task is None:
        raise ClearheadError("this BERT has no task, so it scores nothing: give one that fills, classifies or answers")
    return output[0] if isinstance(output, tuple) else output


def checked_item(tensor: Tensor, item: int) -> int:
    if not 0 <= item < len(tensor):
        raise ClearheadError(f"there are {len(tensor)} inputs: there is no number {item}")
    return item


def asked_place(model: Model, tensors: Sequence[Tensor], scores: Tensor, place: int | None, item: int) -> int | None:
    """Which row of scores (B,L,numbers) is asked about, counted from 0; None where there is one for the whole input.

    Without a place: the last token of a model that writes, the first blank of a BERT that fills.
    """
    if scores.ndim == 2:
        if place is not None:
            raise ClearheadError("the model answers once for the whole input: no place can be chosen")
        return None
    length = row_length(model, tensors, item)
    if place is None:
        place = length - 1 if model.family != "bert" else _blank(model, tensors[0][item, :length])
    if not -length <= place < length:
        raise ClearheadError(f"there is no place {place}: the input has {length} tokens")
    return place % length


def row_length(model: Model, tensors: Sequence[Tensor], item: int) -> int:
    """How many tokens of a text model's input are answered for, padding left out."""
    tokens, lengths = ANSWERED[model.family]
    return int(tensors[lengths][item]) if len(tensors) > lengths else tensors[tokens].shape[1]


def _blank(model: Model, ids: Tensor) -> int:
    if model.config.task not in ("fill", "pretrain"):
        raise ClearheadError("the model answers for every token: say at which place")
    mask = tokenizer(model).special.get("mask")
    blanks = [] if mask is None else (ids == mask).nonzero()[:, 0].tolist()
    if not blanks:
        raise ClearheadError("the text has no blank: mask a word, or say at which place")
    return blanks[0]


def asked_scores(scores: Tensor, place: int | None, item: int) -> Tensor:
    """(numbers,): the row that is asked about."""
    return scores[item] if place is None else scores[item, place]


def probabilities_of(model: Model, scores: Tensor) -> Tensor | None:
    """scores (..., numbers) as probabilities: a softmax, or each by itself where classes don't exclude each other.

    None where that makes no sense: the one number is a measure, or the two say where an answer starts and ends.
    """
    classes = isinstance(model, ViT) or (isinstance(model, BERT) and model.config.task in ("classify", "tag"))
    problem = labels(model).problem if classes else None
    if problem == "multi_label_classification":
        return scores.float().sigmoid()
    if problem == "regression" or scores.shape[-1] == 1 or getattr(model.config, "task", None) == "answer":
        return None
    return scores.float().softmax(-1)


def names_of(model: Model) -> Callable[[int], str]:
    """What a number that the model answers with is called: a class, a word; `#5` where nobody named it."""
    if getattr(model.config, "num_classes", None) is not None:
        return lambda number: labels(model).names[number]
    if isinstance(model, BERT) and model.config.task not in ("fill", "pretrain"):
        follows = model.config.task == "next-sentence"
        return lambda number: (("follows", "does not follow") if follows else ("starts", "ends"))[number]
    try:
        tok = tokenizer(model, side="target" if "target" in model.takes else "source")
    except ClearheadError:
        return lambda number: f"#{number}"
    known = set(tok.vocabulary.values())
    return lambda number: tok.pieces([number])[0] if number in known else f"#{number}"


def best(values: Tensor, count: int) -> tuple[list[int], list[float]]:
    """The numbers of the largest values and these, largest first."""
    if type(count) is not int or count < 1:
        raise ClearheadError(f"at least one is asked for, not {count!r}")
    found = torch.topk(values, min(count, values.shape[-1]))
    return found.indices.tolist(), found.values.tolist()
