"""Lines of text for a command: from files, from stdin or given in place; and a bar while long input is worked on."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from ..errors import ClearheadError
from ..files import read_text
from ..models import Model, names
from ..runs import load

LONG = 200  # lines from which on a bar is shown


def read_lines(files: list[Path], texts: list[str]) -> list[str]:
    """The lines of the files, in order (`-` is stdin), then the texts; of stdin where there is neither."""
    if not files and not texts:
        if sys.stdin.isatty():
            raise ClearheadError("no text was given: name a file, give --text, or pipe lines in")
        files = [Path("-")]
    lines = [line for file in files for line in _split(_stdin() if str(file) == "-" else read_text(file))]
    lines += texts
    if not any(line.strip() for line in lines):
        names_given = ["stdin" if str(file) == "-" else str(file) for file in files] or ["the text"]
        raise ClearheadError(f"{', '.join(names_given)}: there is no text in it")
    return lines


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ClearheadError(f"stdin is not UTF-8 text (byte {error.start})") from None


def _split(text: str) -> list[str]:
    """Lines as a text file has them: each ends with a newline, which is no part of it."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    return text.removesuffix("\n").split("\n") if text else []


def trained(name: str, device: str) -> Model:
    """A model with trained weights: a command that answers does not make them up."""
    if name in names() and not Path(name).exists():
        raise ClearheadError(f"{name} is an architecture without trained weights: give the folder of a trained one")
    return load(name, device=device)


@contextmanager
def bar(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr that is told how many lines were done, where there are many and somebody can see it."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=total < LONG or not console.is_terminal) as progress:
        task = progress.add_task("lines", total=total)
        yield lambda done: progress.advance(task, done)
