"""The server: thin routes over a `Studio`. Every refusal is one line in words, {"problem": ...}."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from .. import __version__
from ..errors import ClearheadError, shown
from . import (
    attention_api,
    decode_api,
    models_api,
    page_api,
    passes_api,
    pictures_api,
    presets_api,
    share_api,
    training_api,
    whatif_api,
    words_api,
)
from .core import Settings, Studio, Tools
from .guard import Guard
from .refusals import Unknown
from .schema import Problem

ROUTERS = (
    models_api.router,
    passes_api.router,
    pictures_api.router,
    attention_api.router,
    whatif_api.router,
    decode_api.router,
    words_api.router,
    training_api.router,
    presets_api.router,
    share_api.router,
    page_api.router,
)
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "what is wrong with the input"},
    403: {"model": Problem, "description": "another site asked, or the token is missing"},
    404: {"model": Problem, "description": "there is no such thing, or no longer"},
    413: {"model": Problem, "description": "too much was sent"},
    422: {"model": Problem, "description": "the request is not of the form that the route takes"},
}


def create_app(settings: Settings | None = None, tools: Tools | None = None) -> FastAPI:
    """The app. `tools` stand in for the table of steps and the matrices, in tests."""
    settings = settings or Settings()
    studio = Studio(settings, tools)
    app = FastAPI(
        title="clearhead studio",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=REFUSALS,
        generate_unique_id_function=_name,
    )
    app.state.studio = studio
    for router in ROUTERS:
        app.include_router(router(studio))
    app.mount("/", page_api.Assets(settings.page))
    app.add_middleware(Guard, token=settings.token)
    app.add_exception_handler(ClearheadError, _refused)
    app.add_exception_handler(RequestValidationError, _misformed)
    app.add_exception_handler(HTTPException, _not_routed)
    app.add_exception_handler(Exception, _failed)
    return app


def _name(route: APIRoute) -> str:
    return route.name


def _problem(status: int, text: str) -> JSONResponse:
    return JSONResponse({"problem": text}, status)


async def _refused(_: Request, mistake: Exception) -> JSONResponse:
    return _problem(404 if isinstance(mistake, Unknown) else 400, str(mistake))


async def _misformed(_: Request, mistake: Exception) -> JSONResponse:
    assert isinstance(mistake, RequestValidationError)
    first = mistake.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    return _problem(422, f"the request can't be read: {shown(where, 80)}: {shown(first['msg'], 160)}")


async def _not_routed(request: Request, mistake: Exception) -> JSONResponse:
    assert isinstance(mistake, HTTPException)
    path = shown(request.url.path, 80)
    said = f"there is nothing at {path}" if mistake.status_code == 404 else f"{request.method} is not for {path}"
    return _problem(mistake.status_code, said)


async def _failed(_: Request, failure: Exception) -> JSONResponse:
    """A mistake of ours: the terminal has the rest."""
    said = f"{type(failure).__name__}: {shown(failure, 160)}"
    return _problem(500, f"something went wrong inside, which the terminal tells in full: {said}")
