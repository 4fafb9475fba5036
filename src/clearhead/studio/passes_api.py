"""One input through one model: make a pass, find it again, read its matrices."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from .binary import check_size, joined, packed, span
from .core import Studio
from .refusals import Unknown
from .schema import Pass, PassWanted

BYTES = {200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}}
PNG = {200: {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}}}


class Bytes(Response):
    media_type = "application/octet-stream"


class Png(Response):
    media_type = "image/png"


def router(studio: Studio) -> APIRouter:
    routes, passes = APIRouter(prefix="/api", tags=["passes"]), studio.passes

    @routes.post("/passes", response_model=Pass)
    def make_pass(wanted: PassWanted) -> Response:
        """Run a model on an input and record every step. The same input again is the same pass."""
        return _as_json(passes.make(wanted))

    @routes.get("/passes/{id}", response_model=Pass)
    def get_pass(id: str) -> Response:
        """A pass that is kept; one that was dropped is 404, and is made again by posting it."""
        return _as_json(passes.get(id).said)

    @routes.get("/passes/{id}/matrix", response_class=Bytes, responses={**BYTES})
    def get_matrix(
        id: str,
        key: Annotated[str, Query(max_length=300)],
        head: int = 0,
        rows: str | None = None,
        columns: str | None = None,
    ) -> Response:
        """A matrix, or the rows a:b and columns c:d of it: float32, little-endian, row by row (see binary.py)."""
        matrices = passes.matrices(id)
        high, wide = matrices.shape(key)
        down, along = span(rows, high, "rows"), span(columns, wide, "columns")
        check_size(down, along)
        values = matrices.get(key, head, slice(*down), slice(*along))
        low, top = matrices.range(key, head) or (float("nan"), float("nan"))
        told = {"X-Shape": joined(high, wide), "X-Slice": joined(*down, *along), "X-Range": joined(low, top)}
        return Bytes(packed(values), headers=told)

    @routes.get("/passes/{id}/picture", response_class=Png, responses={**PNG})
    def get_pass_picture(id: str) -> Response:
        """The picture as the model sees it."""
        png = passes.get(id).png
        if png is None:
            raise Unknown("this pass has no picture: its model reads text")
        return Png(png)

    @routes.get("/attention/{id}", response_class=Bytes, responses={**BYTES})
    def get_attention(id: str, kind: Literal["encoder", "decoder", "cross"]) -> Response:
        """Thumbnails of all layers and heads, each at most 32 x 32; NaN where a layer was left out of the trace."""
        small = passes.thumbnails(id, kind)
        return Bytes(packed(small), headers={"X-Shape": joined(*small.shape)})

    return routes


def _as_json(said: Pass) -> Response:
    """Written once, by pydantic: a table of steps is long, and was checked when it was made."""
    return Response(said.model_dump_json(), media_type="application/json")
