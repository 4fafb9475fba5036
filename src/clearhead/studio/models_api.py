"""Which models there are."""

from fastapi import APIRouter

from .core import Studio
from .schema import ModelCard


def router(studio: Studio) -> APIRouter:
    routes = APIRouter(prefix="/api", tags=["models"])

    @routes.get("/models")
    def models() -> list[ModelCard]:
        """Every model that can be opened, those that were given first."""
        return studio.shelf.cards()

    return routes
