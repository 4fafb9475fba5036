"""What the attention views compute, by `analyse`, from a kept pass."""

from collections.abc import Iterator
from typing import Literal

from torch import Tensor

from ..analyse import (
    SCORES,
    AttentionMap,
    Lens,
    Relevance,
    attention_distances,
    attention_maps,
    filtered_picture,
    gradient_rollout,
    head_scores,
    logit_lens,
    over_pixels,
    patch_maps,
    patch_names,
    rollout,
)
from ..errors import ClearheadError
from ..models.vit import ViT, ViTConfig
from ..runs import preprocessor
from .attention_schema import Answered, AttentionSummary, HeadMeasure, Kind, LensAnswers, OutcomeRelevance, TellingHead
from .inputs import unnormalised
from .pictures import as_png
from .refusals import Unknown
from .seen import Seen

MOST_WEIGHTS = 64 * 10**6  # of one pass that is gone back through; GPT-2 at 512 tokens has 38 million
MOST_PLACES = 64  # that the lens looks at in one answer
MOST_ANSWERS = 20

Values = list[list[float] | None]
Of = Literal["attention", "rollout", "relevance"]


def maps_of(seen: Seen, kind: str) -> list[AttentionMap]:
    """The maps of the layers that were kept; a picture's tokens are called by their patches."""
    seen.attention(kind)
    config = seen.model.config
    return attention_maps(seen.kept.trace, kind, rows=patch_names(config) if isinstance(config, ViTConfig) else None)


def summary(seen: Seen, kind: Kind) -> AttentionSummary:
    told, maps = seen.attention(kind), maps_of(seen, kind)
    across = kind == "cross"
    measured = [_scores(one, across) for one in maps]
    return AttentionSummary(
        kind=kind,
        layers=told.layers,
        heads=told.heads,
        unit=None if across else "pixels" if isinstance(seen.model, ViT) else "tokens",
        distance=None if across else _by_layer(told.layers, maps, _distances(seen, maps)),
        measures=[_measure(name, told.layers, maps, measured) for name in SCORES],
        left_out=sorted({*range(told.layers)} - {one.layer for one in maps}),
    )


def _distances(seen: Seen, maps: list[AttentionMap]) -> list[Tensor]:
    config = seen.model.config
    return list(attention_distances(maps, config if isinstance(config, ViTConfig) else None))


def _scores(one: AttentionMap, across: bool) -> dict[str, Tensor]:
    """Between two texts a head can be narrow or wide, and no more can be said of it."""
    if not across:
        return head_scores(one)
    spread = SCORES["entropy"].compute(one.weights.double(), one.columns)
    assert spread is not None
    return {"entropy": spread.float()}


def _by_layer(layers: int, maps: list[AttentionMap], values: list[Tensor]) -> Values:
    found: Values = [None] * layers
    for one, row in zip(maps, values, strict=True):
        found[one.layer] = row.tolist()
    return found


def _measure(name: str, layers: int, maps: list[AttentionMap], measured: list[dict[str, Tensor]]) -> HeadMeasure:
    score = SCORES[name]
    there = all(name in values for values in measured)
    values = _by_layer(layers, maps, [values[name] for values in measured]) if there else None
    return HeadMeasure(
        name=name,
        formula=score.formula,
        means=score.means,
        lowest=score.lowest,
        values=values,
        best=None if values is None else _most_telling(values, {one.layer: one.site for one in maps}, score.lowest),
    )


def _most_telling(values: Values, sites: dict[int, str], lowest: bool) -> TellingHead:
    found = [
        TellingHead(layer=layer, head=head, score=score, site=sites[layer])
        for layer, row in enumerate(values)
        for head, score in enumerate(row or [])
    ]
    return max(found, key=lambda one: -one.score if lowest else one.score)


def rolled(seen: Seen, kind: str | None, heads: str, discard: float) -> Tensor:
    """(N,L,L)"""
    if kind is not None:
        seen.attention(kind)
    return rollout(seen.kept.trace, kind, heads=heads, discard=discard)


def relevance(seen: Seen, target: int | None, place: int | None) -> Relevance:
    """Goes through the model once more, with gradients."""
    seen.as_it_is("relevance")
    count = sum(one.layers * one.heads * one.rows.size * one.columns.size for one in seen.kept.said.attention)
    if count > MOST_WEIGHTS:
        raise ClearheadError(
            f"this pass has {count:,} attention weights, and relevance goes back through {MOST_WEIGHTS:,} at most: "
            "shorten the input"
        )
    return gradient_rollout(seen.model, seen.inputs, target, place=seen.place(place))


def told_relevance(seen: Seen, found: Relevance) -> OutcomeRelevance:
    both = found.source is not None
    return OutcomeRelevance(
        id=found.number,
        text=seen.name(found.number),
        score=found.score,
        place=found.place,
        of="target" if both else "patches" if isinstance(seen.model, ViT) else "tokens",
        tokens=found.tokens.tolist(),
        source=None if found.source is None else found.source.tolist(),
        layers=len(found.layers),
    )


def layer_of(matrices: Tensor, layer: int | None) -> Tensor:
    """(L,L) of one layer, the last unless given."""
    if layer is None:
        return matrices[-1]
    if not 0 <= layer < len(matrices):
        raise ClearheadError(f"there is no layer {layer}: there are {len(matrices)}, from 0")
    return matrices[layer]


def head_matrix(seen: Seen, layer: int | None, head: int | None) -> Tensor:
    """(L,L): a head's weights, or their mean over the heads."""
    maps = maps_of(seen, "encoder")
    wanted = maps[-1].layer if layer is None else layer
    one = next((one for one in maps if one.layer == wanted), None)
    if one is None:
        raise ClearheadError(f"there is no layer {wanted} in the trace: it has {', '.join(str(m.layer) for m in maps)}")
    if head is None:
        return one.mean
    if not 0 <= head < len(one.weights):
        raise ClearheadError(f"there is no head {head}: the layer has {len(one.weights)}, from 0")
    return one.weights[head]


def over_picture(seen: Seen, matrix: Tensor, row: int | None, pixels: bool) -> Tensor:
    """(R,C) patches, or (height, width): where a token looks; without a row, what the head reads."""
    config = picture_config(seen)
    if row is None:
        patches = patch_maps(matrix[None], config)[0]
    elif 0 <= row < config.tokens:
        patches = matrix[row, config.tokens - config.grid[0] * config.grid[1] :].unflatten(0, config.grid)
    else:
        raise ClearheadError(f"there is no row {row}: the picture has {config.tokens} tokens, from 0")
    return over_pixels(patches, config) if pixels else patches


def filtered(seen: Seen, layer: int | None, head: int | None) -> bytes:
    """The picture as a head sees it: every patch the mean of all, by its weights. As PNG."""
    config = picture_config(seen)
    image = seen.kept.trace["input.image"][0]
    pixels = filtered_picture(image.float(), head_matrix(seen, layer, head).float(), config)
    return as_png(unnormalised(pixels, preprocessor(seen.model)))


def picture_config(seen: Seen) -> ViTConfig:
    if not isinstance(seen.model, ViT):
        raise Unknown("this pass has no picture: its model reads text")
    return seen.model.config


def lens(seen: Seen, places: list[int] | None, count: int) -> LensAnswers:
    """Goes through the model's last norm and head, once for every block."""
    if not 1 <= count <= MOST_ANSWERS:
        raise ClearheadError(f"1 to {MOST_ANSWERS} answers are told for each place, not {count}")
    if places is not None and len(places) > MOST_PLACES:
        raise ClearheadError(f"{len(places)} places are more than the {MOST_PLACES} that are looked at in one answer")
    found = logit_lens(seen.model, seen.kept.trace, _looked_at(seen) if places is None else places, count=count)
    best = [[_answered(seen, *row) for row in zip(*at, strict=True)] for at in _by_point(found)]
    return LensAnswers(
        points=points(len(found.numbers)),
        places=list(found.places),
        answers=best,
        final=[answers[0] for answers in best[-1]],
        rising=found.final.tolist(),
    )


def _by_point(found: Lens) -> Iterator[tuple[Tensor, Tensor]]:
    """At each point of the stream, by place, the best numbers and their probabilities."""
    return zip(found.numbers, found.probabilities, strict=True)


def _looked_at(seen: Seen) -> list[int] | None:
    """The last tokens, as many as one answer holds; None where the model answers once for the whole input."""
    if seen.scores.ndim == 2:
        return None
    count = seen.scores.shape[1]
    return list(range(max(0, count - MOST_PLACES), count))


def _answered(seen: Seen, numbers: Tensor, chances: Tensor) -> list[Answered]:
    pairs = zip(numbers.tolist(), chances.tolist(), strict=True)
    return [Answered(id=number, text=seen.name(number), probability=chance) for number, chance in pairs]


def points(count: int) -> list[str]:
    """What the points of the residual stream are called: before the first block, and behind each."""
    return ["input", *(f"block {number}" for number in range(1, count))]
