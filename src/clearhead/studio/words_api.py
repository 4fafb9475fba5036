"""The words of a model: its token table as a space, neighbours, analogies, a word in sentences, the places' rows."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from ..analyse import analogy, nearest_words
from ..errors import ClearheadError
from . import word_views as views
from .binary import span
from .core import Studio
from .passes_api import BYTES, Bytes
from .remembered import Remembered
from .sent import sent
from .words_schema import ContextsWanted, NearWords, TableRow, Which, WordContexts, WordSpace

KEPT_SPACES = 32


def router(studio: Studio) -> APIRouter:
    routes = APIRouter(prefix="/api/words/{model}", tags=["words"])
    for add in (_space, _alike, _rows, _contexts, _positions):
        add(routes, studio)
    return routes


def _space(routes: APIRouter, studio: Studio) -> None:
    spaces: Remembered[WordSpace] = Remembered(KEPT_SPACES)

    @routes.get("/space")
    def word_space(
        model: str,
        kind: views.Kind = "pca",
        count: int = 500,
        word: Annotated[list[str] | None, Query(max_length=1000)] = None,
        side: Which = "source",
    ) -> WordSpace:
        """Words on a plane: those that are named (word=a&word=b), or the `count` first of the vocabulary.

        A word has two letters or more; where a vocabulary has none of these, all its tokens but the marks are words.
        """
        opened = studio.shelf.open(model)
        numbers = views.asked_words(opened, word or [], count, kind, side)
        key = model, opened.stamp, kind, numbers, side
        return spaces.get(key, lambda: views.space(opened, kind, numbers, side))


def _alike(routes: APIRouter, studio: Studio) -> None:
    @routes.get("/neighbours")
    def word_neighbours(
        model: str, word: str | None = None, number: int | None = None, count: int = 10, side: Which = "source"
    ) -> NearWords:
        """The words whose rows of the token table are most like a word's, or the row of a token's number, by cosine."""
        opened = studio.shelf.open(model)
        spells = views.speller(opened, side)
        if number is not None and word is None:
            return NearWords(
                asked=spells.shown(number), words=views.near_number(opened, number, views.checked_count(count), side)
            )
        if word is None or number is not None:
            raise ClearheadError("name the word by its spelling or by its token's number, one of the two")
        found = nearest_words(opened.model, views.checked_word(word), views.checked_count(count), side=side)
        return NearWords(asked=word, words=views.near(opened, found, side))

    @routes.get("/analogy")
    def word_analogy(model: str, a: str, b: str, c: str, count: int = 10, side: Which = "source") -> NearWords:
        """a - b + c: king - man + woman; the three themselves are left out."""
        opened = studio.shelf.open(model)
        views.speller(opened, side)
        for one in (a, b, c):
            views.checked_word(one)
        found = analogy(opened.model, a, b, c, views.checked_count(count), side=side)
        return NearWords(asked=f"{a} - {b} + {c}", words=views.near(opened, found, side))


def _rows(routes: APIRouter, studio: Studio) -> None:
    @routes.get("/row")
    def word_row(model: str, token: str | None = None, number: int | None = None, side: Which = "source") -> TableRow:
        """A token, by its spelling or its number: one-hot times the table is its row."""
        opened = studio.shelf.open(model)
        views.speller(opened, side)
        if (token is None) == (number is None):
            raise ClearheadError("name the row by its token or by its number, one of the two")
        return views.table_row(opened, views.checked_word(token) if token is not None else number or 0, side)


def _contexts(routes: APIRouter, studio: Studio) -> None:
    @routes.post("/contexts")
    def word_contexts(model: str, wanted: ContextsWanted) -> WordContexts:
        """One word in several sentences: its row is the same everywhere, what the blocks make of it is not."""
        opened = studio.shelf.open(model)
        with studio.passes.computing:
            return views.contexts(opened, wanted.word, wanted.sentences)


def _positions(routes: APIRouter, studio: Studio) -> None:
    @routes.get("/positions", response_class=Bytes, responses={**BYTES})
    def word_positions(
        model: str, side: Which = "source", rows: str | None = None, columns: str | None = None
    ) -> Response:
        """The table that says where tokens stand; X-Kind: learned, sinusoidal, sinusoidal-2d, relative or rotary."""
        kind, table = views.position_table(studio.shelf.open(model).model, side)
        down, along = span(rows, table.shape[0], "rows"), span(columns, table.shape[1], "columns")
        return sent(table, down, along, Kind=kind)
