"""`clearhead explain`: one pass as one page that opens anywhere, with every step and its numbers inside."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ClearheadError
from ..files import write_text
from ..models import names
from ..runs.places import located
from .studio import EXTRA


def command(
    model: Annotated[str, typer.Argument(help="A run folder, a Hugging Face folder, or a model's name (random).")],
    given: Annotated[
        str | None,
        typer.Argument(
            metavar="INPUT", help="A text, the source of a pair, or a picture's path; an example unless given."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="What an encoder-decoder is given to read; it writes it itself unless given.")
    ] = None,
    second: Annotated[str | None, typer.Option(help="The second sentence of a BERT.")] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="The page.")] = Path("page.html"),
) -> None:
    """Write one self-contained page with a whole pass: every step, its formula, its matrices. It needs no server.

    Example: `clearhead explain runs/my-gpt "This is Computer Vision Class" -o page.html`
    """
    try:
        from ..studio.core import Settings, Studio
        from ..studio.share_page import shared_page
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in EXTRA:
            raise
        raise ClearheadError(f"explain needs {missing.name}: pip install 'clearhead[studio]'") from None
    studio = Studio(Settings(runs=(_place(model),)))
    said = studio.passes.make(_wanted(studio, given, target, second))
    text, inside = shared_page(studio.passes, said.id, studio.settings.page)
    write_text(out, text)
    typer.echo(f"{out}: {len(text.encode()) / 1e6:.1f} MB, {len(said.steps)} steps of {said.model.name}")
    for note in inside["notes"]:
        typer.echo(note)


def _place(model: str) -> str:
    return model if model in names() and not Path(model).exists() else str(located(model))


def _wanted(studio: Any, given: str | None, target: str | None, second: str | None) -> Any:
    """The pass that is asked for; the model's own example where nothing is."""
    from ..studio.schema import Inputs, PassWanted

    card = studio.shelf.cards()[0]
    if card.problem is not None:
        raise ClearheadError(card.problem)
    if given is None:
        if target is not None or second is not None:
            raise ClearheadError("give the INPUT that --target or --second belongs to")
        return PassWanted(model=card.id, inputs=card.example)
    if "image" in card.takes:
        inputs = Inputs(picture=_picture(studio, given), target=target, second=second)
    elif "source" in card.takes:
        inputs = Inputs(source=given, target=target, second=second)
    else:
        inputs = Inputs(text=given, target=target, second=second)
    return PassWanted(model=card.id, inputs=inputs)


def _picture(studio: Any, path: str) -> str:
    file = Path(path)
    if not file.is_file():
        raise ClearheadError(f"there is no picture {path}")
    try:
        return studio.album.keep(file.read_bytes(), file.name).picture
    except OSError as problem:
        raise ClearheadError(f"{path} can't be read: {problem.strerror}") from None
