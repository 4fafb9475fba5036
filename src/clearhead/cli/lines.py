"""What commands share: text from files, stdin or in place; the model; a bar on long input; columns of words."""

import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from ..errors import ClearheadError
from ..files import read_text
from ..models import Model, create, names
from ..runs import load

LONG = 200  # lines from which on a bar is shown


def read_lines(files: list[Path], texts: list[str]) -> list[str]:
    """The lines of the files, in order (`-` is stdin), then the texts; of stdin where there is neither."""
    if not files and not texts:
        if sys.stdin.isatty():
            raise ClearheadError("no text was given: name a file, give --text, or pipe lines in")
        files = [Path("-")]
    lines = [line for file in files for line in _split(text_of(file))]
    lines += texts
    if not any(line.strip() for line in lines):
        names_given = ["stdin" if str(file) == "-" else str(file) for file in files] or ["the text"]
        raise ClearheadError(f"{', '.join(names_given)}: there is no text in it")
    return lines


def text_of(file: Path) -> str:
    """The text of a file; `-` is stdin."""
    if str(file) != "-":
        return read_text(file)
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


def trained_or_random(name: str, device: str, random: bool, seed: int) -> Model:
    """The same; or, where that is asked for, a name with random weights: `say_random` must say so."""
    if device == "meta":
        raise ClearheadError("the meta device computes nothing: use auto or cpu")
    own = Path(name).exists()
    if random and own:
        raise ClearheadError(f"--random goes with a model's name: {name} has weights of its own")
    if name in names() and not own and not random:
        raise ClearheadError(f"{name} is an architecture without trained weights: give a trained folder, or --random")
    return create(name, seed=seed, device=device) if random else load(name, device=device)


def say_random(model: Model) -> None:
    if model.origin.random:
        say(f"{model.origin}: what it writes means nothing")


def in_int8(model: Model, rows: Sequence[Sequence[int]]) -> Model:
    """The model with weights in 8 bits; what that costs on these inputs is said."""
    from ..tasks.precision import measured_loss

    light, context = light_copy(model), getattr(model.config, "context", None) or sys.maxsize
    say(str(measured_loss(model, light, [row[-context:] for row in rows])))
    return light


def light_copy(model: Model) -> Model:
    from ..layers import quantise

    light = copy.deepcopy(model)
    quantise(light)
    return light


def say(line: str) -> None:
    """Beside the answer: on stderr, so that stdout is the answer alone."""
    print(line, file=sys.stderr, flush=True)


def say_speed(tokens: int, seconds: float) -> None:
    say(f"{tokens:,} tokens in {seconds:.2f} s: {tokens / max(seconds, 1e-9):,.1f} tokens/s")


def harmless(text: str) -> str:
    """What may go to a terminal: control characters could move its cursor or rename its window."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of words as lines, each column as wide as its widest word."""
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(word.ljust(size) for word, size in zip(row, sizes, strict=True)).rstrip() for row in rows]


@contextmanager
def bar(total: int, long: int = LONG, *, printing: bool = False) -> Iterator[Callable[[int], None]]:
    """A bar on stderr that is told how many lines were done, where there are many and somebody can see it.

    A command that is `printing` meanwhile shows by that how far it is, where a terminal has both.
    """
    console = Console(stderr=True)
    hidden = total < long or not console.is_terminal or (printing and sys.stdout.isatty())
    # Not through rich: it would send what is printed to the bar's console, which is stderr.
    with Progress(console=console, transient=True, disable=hidden, redirect_stdout=False) as progress:
        task = progress.add_task("lines", total=total)
        yield lambda done: progress.advance(task, done)
