"""The decks' pictures, to be opened in a click."""

from fastapi import APIRouter

from .core import Studio
from .presets import PresetCard, PresetOpened, Presets


def router(studio: Studio) -> APIRouter:
    routes, presets = APIRouter(prefix="/api/presets", tags=["presets"]), Presets(studio)

    @routes.get("")
    def list_presets() -> list[PresetCard]:
        """Each with the run that it needs, the command that makes it, and whether it is there."""
        return presets.cards()

    @routes.post("/{id}")
    def open_preset(id: str) -> PresetOpened:
        """Make the pass, measure its heads, and say where to look."""
        return presets.open(id)

    return routes
