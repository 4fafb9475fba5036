"""Attention of a kept pass in numbers: heads, rollout, gradient rollout, over the picture; and the logit lens."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from torch import Tensor

from ..analyse import Relevance
from ..errors import ClearheadError, shown
from . import attention_views as views
from .attention_schema import AttentionSummary, Kind, LensAnswers, OutcomeRelevance
from .binary import span
from .core import Studio
from .passes_api import BYTES, PNG, Bytes, Png
from .remembered import Remembered
from .seen import Seen, seen
from .sent import sent

SUMMARIES = 32
LARGE = 2  # rollouts and relevances that are kept: each has layers x tokens x tokens numbers

Heads = Literal["mean", "max", "min"]


class Computed:
    """What takes a while, of kept passes: the last few answers are remembered."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self._summaries: Remembered[AttentionSummary] = Remembered(SUMMARIES)
        self._rollouts: Remembered[Tensor] = Remembered(LARGE)
        self._relevances: Remembered[Relevance] = Remembered(LARGE)

    def summary(self, one: Seen, kind: Kind) -> AttentionSummary:
        return self._summaries.get((*one.key, kind), lambda: views.summary(one, kind))

    def rolled(self, one: Seen, kind: Kind | None, heads: Heads, discard: float) -> Tensor:
        return self._rollouts.get((*one.key, kind, heads, discard), lambda: views.rolled(one, kind, heads, discard))

    def relevance(self, one: Seen, target: int | None, place: int | None) -> Relevance:
        def make() -> Relevance:
            with self.studio.passes.computing:
                return views.relevance(one, target, place)

        return self._relevances.get((*one.key, target, place), make)


def router(studio: Studio) -> APIRouter:
    routes, computed = APIRouter(prefix="/api/passes/{id}", tags=["attention"]), Computed(studio)
    _heads(routes, computed)
    _relevance(routes, computed)
    _picture(routes, computed)
    _filtered(routes, studio)
    _lens(routes, studio)
    return routes


def _heads(routes: APIRouter, computed: Computed) -> None:
    studio = computed.studio

    @routes.get("/attention/{kind}/summary")
    def attention_summary(id: str, kind: Kind) -> AttentionSummary:
        """Every head of one kind: how far it looks, and the scores that say what it does."""
        return computed.summary(seen(studio, id), kind)

    @routes.get("/rollout", response_class=Bytes, responses={**BYTES})
    def get_rollout(
        id: str,
        kind: Kind | None = None,
        layers: str | None = None,
        heads: Heads = "mean",
        discard: float = 0.0,
    ) -> Response:
        """(layers, tokens, tokens): after each layer, row i says of which tokens token i is made. `layers` is a:b."""
        return layered(computed.rolled(seen(studio, id), kind, heads, discard), layers)


def _relevance(routes: APIRouter, computed: Computed) -> None:
    studio = computed.studio

    @routes.get("/gradient-rollout")
    def get_relevance(id: str, target: int | None = None, place: int | None = None) -> OutcomeRelevance:
        """Which tokens or patches the score of `target` rests on; of the best scored outcome unless given."""
        one = seen(studio, id)
        return views.told_relevance(one, computed.relevance(one, target, place))

    @routes.get("/gradient-rollout/layers", response_class=Bytes, responses={**BYTES})
    def get_relevance_layers(
        id: str,
        part: Literal["self", "cross"] = "self",
        layers: str | None = None,
        target: int | None = None,
        place: int | None = None,
    ) -> Response:
        """(layers, tokens, tokens) of the same, after each layer; `cross`: (layers, target, source)."""
        found = computed.relevance(seen(studio, id), target, place)
        if part == "cross" and found.cross is None:
            raise ClearheadError("the model reads one text: there is no relevance across two")
        return layered(found.layers if found.cross is None or part == "self" else found.cross, layers)


def _picture(routes: APIRouter, computed: Computed) -> None:
    @routes.get("/patches", response_class=Bytes, responses={**BYTES})
    def over_picture(
        id: str,
        of: views.Of = "attention",
        layer: int | None = None,
        head: int | None = None,
        row: int | None = None,
        target: int | None = None,
        pixels: bool = False,
    ) -> Response:
        """What lies over the picture: (rows, columns) of patches, or of pixels.

        of      a head's attention (the mean of all heads unless one is named), rollout, or relevance for `target`
        layer   the last unless given; row: the token that looks, [CLS] is 0; without one, what the model's head reads
        """
        one = seen(computed.studio, id)
        views.picture_config(one)
        if of == "attention":
            matrix = views.head_matrix(one, layer, head)
        elif of == "rollout":
            matrix = views.layer_of(computed.rolled(one, None, "mean", 0.0), layer)
        else:
            matrix = views.layer_of(computed.relevance(one, target, None).layers, layer)
        return sent(views.over_picture(one, matrix, row, pixels))


def _filtered(routes: APIRouter, studio: Studio) -> None:
    @routes.get("/filtered", response_class=Png, responses={**PNG})
    def get_filtered(id: str, layer: int | None = None, head: int | None = None) -> Response:
        """The picture through a head's attention: every patch becomes the mean of all, as the head weighs them.

        layer   the last unless given; head: the mean of all heads unless one is named
        """
        return Png(views.filtered(seen(studio, id), layer, head))


def _lens(routes: APIRouter, studio: Studio) -> None:
    @routes.get("/lens")
    def get_lens(id: str, places: Annotated[str | None, Query(max_length=600)] = None, count: int = 5) -> LensAnswers:
        """What the model would answer if it stopped behind each block. `places`: 0,3,-1; the last 64 unless given."""
        wanted = None if places is None else [_number(part) for part in places.split(",")]
        one = seen(studio, id)
        with studio.passes.computing:
            return views.lens(one, wanted, count)


def layered(values: Tensor, layers: str | None) -> Bytes:
    """The layers a:b of (layers, rows, columns)."""
    return sent(values, span(layers, len(values), "layers"))


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ClearheadError(f"places are whole numbers such as 0,3,-1, not '{shown(text, 40)}'") from None
