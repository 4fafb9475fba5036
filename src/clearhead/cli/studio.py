"""`clearhead studio`: every step of every model in the browser, on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import ClearheadError

EXTRA = ("fastapi", "starlette", "uvicorn", "pydantic")


def command(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Run folders, or architectures' names (random weights)."),
    ] = None,
    port: Annotated[int | None, typer.Option(help="The port; 8421, or any that is free, unless given.")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser on it.")] = True,
    data: Annotated[
        Path | None, typer.Option("--data", help="Where named sets of pictures lie; CLEARHEAD_DATA unless given.")
    ] = None,
) -> None:
    """Serve the studio on this machine: step through a pass, with your own input and your own checkpoint. Runs below
    ./runs are listed too.

    Example: `clearhead studio runs/vit-digits`
    """
    try:
        from ..studio.core import Settings
        from ..studio.serve import serve
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in EXTRA:
            raise
        raise ClearheadError(f"the studio needs {missing.name}: pip install 'clearhead[studio]'") from None
    serve(Settings(runs=tuple(runs or ()), root=Path("runs"), data=data), port, browser)
