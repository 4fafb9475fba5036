"""Pictures to choose from, and pictures that are sent."""

from urllib.parse import unquote

from fastapi import APIRouter, Header, Request, Response
from fastapi.concurrency import run_in_threadpool

from .core import Studio
from .passes_api import PNG, Png
from .schema import PictureKept, PictureOffered, PictureSet

BODY = {"requestBody": {"required": True, "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}}


def router(studio: Studio) -> APIRouter:
    routes, album = APIRouter(prefix="/api", tags=["pictures"]), studio.album

    @routes.get("/sets")
    def picture_sets() -> list[PictureSet]:
        """The sets of pictures that are there."""
        return album.sets()

    @routes.get("/pictures")
    def pictures(set: str, part: str = "test", count: int = 24, offset: int = 0) -> list[PictureOffered]:
        """Some pictures of a set, with their labels."""
        return album.offered(set, part, count, offset)

    @routes.post("/pictures", openapi_extra=BODY)
    async def send_picture(request: Request, x_name: str | None = Header(None)) -> PictureKept:
        """Raw bytes of a picture, at most 25 MB and 50 million pixels; kept in memory while there is room."""
        return await run_in_threadpool(album.keep, await request.body(), x_name and unquote(x_name))

    @routes.get("/pictures/upload/{name}", response_class=Png, responses={**PNG})
    def sent_picture(name: str) -> Response:
        return Png(album.png(f"upload/{name}"))

    @routes.get("/pictures/{set}/{part}/{number}", response_class=Png, responses={**PNG})
    def picture(set: str, part: str, number: int) -> Response:
        return Png(album.png(f"{set}/{part}/{number}"))

    return routes
