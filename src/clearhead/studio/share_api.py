"""A pass as one file that opens anywhere."""

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from .core import Studio
from .share_page import shared_page

HTML = {200: {"content": {"text/html": {"schema": {"type": "string"}}}}}


def router(studio: Studio) -> APIRouter:
    routes = APIRouter(prefix="/api", tags=["share"])

    @routes.get("/passes/{id}/share", response_class=HTMLResponse, responses={**HTML})
    def share_pass(id: str) -> Response:
        """One self-contained page of at most 10 MB, to be saved; it says what it left out."""
        text, _ = shared_page(studio.passes, id, studio.settings.page)
        return HTMLResponse(text, headers={"Content-Disposition": f'attachment; filename="clearhead-{id}.html"'})

    return routes
