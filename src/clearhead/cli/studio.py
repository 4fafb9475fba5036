"""`clearhead studio`: every step of every model in the browser, on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import ClearheadError

EXTRA = ("fastapi", "starlette", "uvicorn", "pydantic")


def command(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="What to list first: run folders, Hugging Face folders, hf:owner/name, or models' names (random "
            "weights). Runs below ./runs are listed as well.",
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="The port to serve on. Unless given: 8421, or a free one where that is taken.")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in a browser.")] = True,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="The folder of the picture sets; what CLEARHEAD_DATA names unless given."),
    ] = None,
) -> None:
    """Open the studio in a browser: every step of a pass, on your own input and your own checkpoint, with the numbers
    that were computed.

    It is served to this machine alone, and Ctrl-C ends it.

    Example: `clearhead studio runs/vit-digits`
    """
    try:
        from ..studio.core import Settings
        from ..studio.serve import serve
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in EXTRA:
            raise
        raise ClearheadError(missing_extra("the studio", missing.name)) from None
    serve(Settings(runs=tuple(runs or ()), root=Path("runs"), data=data), port, browser)


def missing_extra(what: str, package: str | None) -> str:
    return f"{what} needs {package}, which is not installed: pip install 'clearhead[studio]'"
