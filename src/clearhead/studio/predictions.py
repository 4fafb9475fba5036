"""What a model says at the end of a pass: the likeliest tokens, words or classes, with their real probabilities."""

from typing import Any

import torch
from torch import Tensor

from ..models.bert import BERT
from ..runs.labels import labels
from .inputs import Ready
from .schema import Chance, Prediction, Token
from .shelf import Opened

BEST = 20
BEST_ELSEWHERE = 5
FOLLOWS = ("the second follows", "it does not")


def predictions(opened: Opened, ready: Ready, output: Any) -> list[Prediction]:
    """output: what the model returned for one input."""
    model = opened.model
    if isinstance(model, BERT):
        return _of_bert(model, ready, output)
    if ready.reads is None:
        return [_classes(model, output[0])]
    return _tokens("next", ready, output[0], range(output.shape[1]))


def _of_bert(model: BERT, ready: Ready, output: Any) -> list[Prediction]:
    tokens = ready.tokens["tokens"]
    match model.config.task:
        case "fill":
            return _words(ready, tokens, output[0])
        case "pretrain":
            words, follows = output
            return [*_words(ready, tokens, words[0]), _named("follows", 0, follows[0], FOLLOWS)]
        case "next-sentence":
            return [_named("follows", 0, output[0], FOLLOWS)]
        case "classify":
            return [_classes(model, output[0])]
        case "tag":
            names = labels(model).names
            return [_named("tag", place, row, names) for place, row in enumerate(output[0])]
        case "answer":
            names = tuple(token.shown for token in tokens)
            return [_named(of, 0, output[0, :, side], names) for side, of in enumerate(("start", "end"))]
    return []


def _words(ready: Ready, tokens: list[Token], logits: Tensor) -> list[Prediction]:
    """The fillers of every blank; where there is none, what the model would put in each place."""
    assert ready.reads is not None
    mask = ready.reads.tok.special.get("mask")
    blanks = [place for place, token in enumerate(tokens) if token.id == mask]
    return _tokens("word", ready, logits, blanks or range(len(tokens)), many=bool(blanks))


def _tokens(of: str, ready: Ready, logits: Tensor, places: Any, many: bool = False) -> list[Prediction]:
    """logits (L,V); the last place has most chances, or all of them where `many`."""
    assert ready.reads is not None
    rows, last = logits.float(), len(logits) - 1
    chances = rows.softmax(-1)
    said = []
    for place in places:
        count = min(BEST if many or place == last else BEST_ELSEWHERE, rows.shape[1])
        best = chances[place].topk(count)
        said.append(_prediction(of, place, best, rows[place], ready.reads.shown))
    return said


def _classes(model: Any, scores: Tensor) -> Prediction:
    named = labels(model)
    if len(scores) == 1 and named.problem != "multi_label_classification":
        value = Chance(id=0, text=named.names[0], logit=scores.item(), probability=1.0)
        return Prediction(of="value", place=0, top=[value])
    return _named("class", 0, scores, named.names, several=named.problem == "multi_label_classification")


def _named(of: str, place: int, scores: Tensor, names: tuple[str, ...], several: bool = False) -> Prediction:
    """scores (classes,): chances that exclude each other, or each its own where several may hold."""
    rows = scores.float()
    best = (rows.sigmoid() if several else rows.softmax(-1)).topk(min(BEST, len(rows)))
    return _prediction(of, place, best, rows, lambda number: names[number])


def _prediction(of: str, place: int, best: Any, logits: Tensor, name: Any) -> Prediction:
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    top = [Chance(id=n, text=name(n), logit=logits[n].item(), probability=chance) for n, chance in pairs]
    return Prediction(of=of, place=place, top=top)


def difference(one: Any, other: Any) -> float:
    """The largest difference between two outputs, of one tensor or several."""
    pairs = zip(*(part if isinstance(part, tuple) else (part,) for part in (one, other)), strict=True)
    return max(torch.sub(a.float(), b.float()).abs().max().item() for a, b in pairs)
