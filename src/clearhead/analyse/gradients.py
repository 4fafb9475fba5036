"""Gradient rollout: which tokens an answer rests on, by attention weights times their gradients.

Chefer et al. 2021, "Generic Attention-model Explainability". A layer's map is A = mean over heads of
max(0, gradient * weights), the gradient being that of one score. Relevance starts as R = I and grows with each layer's
self-attention: R <- R + A R. In an encoder-decoder the encoder's R_ss grows so by itself; of the decoder R_tt grows so,
R_ts too (R_ts <- R_ts + A R_ts), and cross-attention brings the source in: R_ts <- R_ts + norm(R_tt)^T A norm(R_ss),
where norm brings the rows of R - I to a sum of 1 and adds I again.
Shapes: N layers, H heads, L tokens, S source tokens.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..errors import ClearheadError
from ..models import Model
from ..models.base import EncoderDecoder
from ..models.vit import ViT
from ..tasks.record import Inputs, prepared
from ..trace import Recorder
from .answers import asked_place, asked_scores, checked_item, checked_model, names_of, scores_of


@dataclass(frozen=True)
class Relevance:
    """What one score rests on.

    number, name, score  what was explained: a class or a token, and its score (logit)
    place                at which token it was scored; None where the model answers once for the whole input
    layers               (N,L,L) R after each layer: of the decoder, where there is one
    tokens               (L,) the last R's row that the answer was read from: how relevant each token is
    cross                (N,L,S) of an encoder-decoder: R_ts after each layer of the decoder
    source               (S,) of an encoder-decoder: how relevant each token of the source is
    """

    number: int
    name: str
    score: float
    place: int | None
    layers: Tensor
    tokens: Tensor
    cross: Tensor | None = None
    source: Tensor | None = None


def gradient_rollout(
    model: nn.Module, inputs: Inputs = None, target: int | None = None, *, place: int | None = None, item: int = 0
) -> Relevance:
    """What the score of `target` rests on: a class's number or a token's; the best scored unless given.

    place  at which token it is scored: the last of a model that writes, the first blank of a BERT that fills, unless
           given; there is none where the model answers once for the whole input
    The model's weights get no gradients: they are as they were, frozen ones too.
    """
    model = checked_model(model)
    if isinstance(model, ViT) and model.config.pooling == "sequence":
        raise ClearheadError("gradient rollout knows [CLS] and mean pooling: this model weighs its patches by itself")
    ready, training = prepared(model, inputs), model.training
    kept: list[Tensor] = []

    def keep(weights: Tensor) -> Tensor:
        kept.append(weights if weights.requires_grad else weights.detach().requires_grad_())
        return kept[-1]

    try:
        with torch.enable_grad(), Recorder(model, "*.weights", replace={"*.weights": keep}) as trace:
            scores = scores_of(model, model.eval()(*ready.tensors))
            checked_item(scores, item)
            place = asked_place(model, ready.tensors, scores, place, item)
            row = asked_scores(scores, place, item)
            number = _checked_number(target, row)
            found = torch.autograd.grad(row[number], kept, allow_unused=True)
    finally:
        model.train(training)
    maps = {
        site: torch.zeros_like(weights[item, 0]) if grad is None else (weights * grad)[item].relu().mean(0)
        for site, weights, grad in zip(trace, kept, found, strict=True)
    }
    maps = {site: one.detach().double().cpu() for site, one in maps.items()}
    told = number, names_of(model)(number), row[number].item(), place
    return _of_both(told, maps) if isinstance(model, EncoderDecoder) else _of_one(model, told, maps)


def _checked_number(target: int | None, scores: Tensor) -> int:
    if target is None:
        return int(scores.argmax())
    if type(target) is not int or not 0 <= target < len(scores):
        raise ClearheadError(f"the model scores 0 to {len(scores) - 1}: there is no {target!r}")
    return target


def _of_one(model: Model, told: tuple[int, str, float, int | None], maps: dict[str, Tensor]) -> Relevance:
    steps = list(maps.values())
    relevance = torch.eye(len(steps[0]), dtype=steps[0].dtype)
    layers = []
    for step in steps:
        relevance = relevance + step @ relevance
        layers.append(relevance)
    return Relevance(*told, torch.stack(layers).float(), _read_row(model, relevance, told[-1]).float())


def _read_row(model: Model, relevance: Tensor, place: int | None) -> Tensor:
    """The row that the head reads: the place that is asked about, [CLS], or the mean of all patches."""
    if isinstance(model, ViT) and model.config.pooling == "mean":
        return relevance.mean(0)
    return relevance[place or 0]


def _of_both(told: tuple[int, str, float, int | None], maps: dict[str, Tensor]) -> Relevance:
    own = [one for site, one in maps.items() if site.startswith("encoder.")]
    of_source = torch.eye(len(own[0]), dtype=own[0].dtype)
    for step in own:
        of_source = of_source + step @ of_source
    selfs = [one for site, one in maps.items() if site.startswith("decoder.") and ".attention." in site]
    crosses = [one for site, one in maps.items() if ".cross." in site]
    of_target = torch.eye(len(selfs[0]), dtype=of_source.dtype)
    across = torch.zeros(len(of_target), len(of_source), dtype=of_source.dtype)
    layers, layers_across = [], []
    for step, cross in zip(selfs, crosses, strict=True):
        of_target, across = of_target + step @ of_target, across + step @ across
        across = across + _normalised(of_target).T @ cross @ _normalised(of_source)
        layers.append(of_target)
        layers_across.append(across)
    place = told[-1]
    return Relevance(
        *told,
        torch.stack(layers).float(),
        of_target[place].float(),
        torch.stack(layers_across).float(),
        across[place].float(),
    )


def _normalised(relevance: Tensor) -> Tensor:
    """R - I with rows that sum to 1 (a row of nothing stays so), plus I."""
    identity = torch.eye(len(relevance), dtype=relevance.dtype)
    gained = relevance - identity
    sums = gained.sum(-1, keepdim=True)
    return gained / sums.where(sums > 0, torch.ones_like(sums)) + identity
