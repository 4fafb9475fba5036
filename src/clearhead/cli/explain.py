"""`clearhead explain`: one pass as one page that opens anywhere, with every step and its numbers inside."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from ..errors import ClearheadError
from ..files import write_text
from .studio import EXTRA, missing_extra


def command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A run folder, a Hugging Face folder, hf:owner/name, all-minilm-l6-v2 where it is installed, or a "
            "model's name as `clearhead models` lists them (random weights).",
        ),
    ],
    given: Annotated[
        str | None,
        typer.Argument(
            metavar="INPUT",
            help="What the model is given: a text, the sentence to translate, or the path of a picture. An example of "
            "its own unless given.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="The translation that an encoder-decoder reads; unless given, the model writes one itself."),
    ] = None,
    second: Annotated[str | None, typer.Option(help="A second sentence, for a BERT.")] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="The file to write.")] = Path("page.html"),
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object: file, bytes, model, steps, digits, what was left out.")
    ] = False,
) -> None:
    """Write one pass through a model as one HTML file: every step with its formula and its matrices, cell by cell.

    The file opens in any browser, without a server or a network, and has at most 10 MB: what does not fit is left out,
    and named.

    Example: `clearhead explain runs/my-gpt "This is Computer Vision Class" -o page.html`
    """
    try:
        from ..studio.core import Settings, Studio
        from ..studio.share_page import shared_page
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in EXTRA:
            raise
        raise ClearheadError(missing_extra("explain", missing.name)) from None
    studio = Studio(Settings(runs=(model,)))
    with Console(stderr=True, quiet=as_json).status(f"recording {escape(model)}") as doing:
        said = studio.passes.make(_wanted(studio, given, target, second))
        doing.update(f"writing {escape(str(out))}")
        text, inside = shared_page(studio.passes, said.id, studio.settings.page)
        write_text(out, text)
    size = len(text.encode())
    if as_json:
        typer.echo(json.dumps(_as_json(out, size, said, inside), ensure_ascii=False))
        return
    typer.echo(f"{out}: {size / 1e6:.1f} MB, {len(said.steps)} steps of {said.model.name}; open it in a browser")
    for note in inside["notes"]:
        typer.echo(note)


def _as_json(out: Path, size: int, said: Any, inside: dict[str, Any]) -> dict[str, Any]:
    return {
        "file": str(out),
        "bytes": size,
        "model": said.model.name,
        "random": said.model.random,
        "steps": len(said.steps),
        "digits": inside["digits"],
        "left_out": inside["left_out"],
        "notes": inside["notes"],
    }


def _wanted(studio: Any, given: str | None, target: str | None, second: str | None) -> Any:
    """The pass that is asked for; the model's own example where nothing is."""
    from ..studio.schema import Inputs, PassWanted

    card = studio.shelf.cards()[0]
    if card.problem is not None:
        raise ClearheadError(card.problem)
    if given is None:
        if target is not None or second is not None:
            raise ClearheadError("--target and --second go with an INPUT, and none is given")
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
        raise ClearheadError(f"this model takes a picture, and there is no file {path}")
    try:
        return studio.album.keep(file.read_bytes(), file.name).picture
    except OSError as problem:
        raise ClearheadError(f"{path} can't be read: {problem.strerror}") from None
