"""`clearhead convert`: weights from one form into another."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

from ..runs.convert import convert

LARGE = 200_000_000  # bytes from which on a bar is shown


def command(
    source: Annotated[str, typer.Argument(metavar="SRC", help="A folder with config.json, or a weights file.")],
    target: Annotated[str, typer.Argument(metavar="DST", help="The folder to write; it must not exist.")],
    to: Annotated[
        str, typer.Option(help="hf: a folder that transformers loads. clearhead: our own names, for every model.")
    ] = "hf",
    arch: Annotated[
        str | None, typer.Option(help="What a file without config.json is, such as vit-b16 (timm's, Google's .npz).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an old model's folder at DST.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object: folder, form, tensors, bytes, files copied, notes.")
    ] = False,
) -> None:
    """Convert a model's folder or file, without a number changed: Hugging Face, timm, Google's ViT or ours, in; a
    folder in Hugging Face's form or ours, out.

    Example: `clearhead convert ViT-B_16.npz my-vit --arch vit-b16`
    """
    with _bar() as progress:
        done = convert(source, target, to=to, arch=arch, force=force, progress=progress)
    if as_json:
        print(json.dumps(asdict(done) | {"folder": str(done.folder)}))
        return
    print(f"{done.folder}: {done.form}, {done.parameters:,} parameters, {done.nbytes / 1e6:,.1f} MB", end="")
    print(f" in {done.tensors} tensors ({', '.join(done.dtypes)})")
    for note in done.notes:
        print(f"note: {note}")
    if done.copied:
        print(f"copied: {', '.join(done.copied)}")


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr, where the weights are large and somebody can see it."""
    console = Console(stderr=True)
    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("writing", total=None, visible=False)
        yield lambda done, total: shown.update(task, completed=done, total=total, visible=total > LARGE)
