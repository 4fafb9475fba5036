"""`clearhead classify`: which class a text or a picture belongs to."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ClearheadError
from ..layers import bytes_of
from ..models import Model
from ..models.vit import ViT
from ..tasks.classify import Verdict, classify
from ..tasks.precision import shrunk
from .lines import bar, columns, harmless, light_copy, read_lines, say, trained

SAMPLED = 32  # inputs on which the loss of 8 bits is measured
PICTURES = frozenset((".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm"))


def command(
    model: Annotated[str, typer.Argument(help="The folder of a trained ViT, or of a BERT of task classify.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="ViT: pictures, or folders of them; from stdin their names. "
            "BERT: text files, a line a text; `-` or nothing is stdin."
        ),
    ] = None,
    text: Annotated[list[str] | None, typer.Option("-t", "--text", help="A text itself. May be repeated.")] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="A line holds two texts, parted by a tab.")] = False,
    top: Annotated[
        int | None, typer.Option("-k", "--top", help="How many classes; unless given 5 for one input, 1 for several.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Inputs that run together.")] = 32,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    int8: Annotated[bool, typer.Option("--int8", help="Weights in 8 bits; what that costs is said.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with every input's classes.")] = False,
) -> None:
    """Name the class of each picture or text, with its probability; a model that measures gives its number.

    A picture that can't be read is named, the others are classified, and the exit code is 2.

    Example: `clearhead classify path/to/vit photos/*.jpg --top 3`

    Example: `clearhead classify path/to/bert --text "a film to remember"`
    """
    judge = trained(model, device)
    if isinstance(judge, ViT):
        if text or pairs:
            raise ClearheadError("a ViT classifies pictures: --text and --pairs are for a BERT")
        names = _pictures(files or [])
        inputs: list[Any] = [Path(name) for name in names]
    else:
        names = [line for line in read_lines(files or [], text or []) if line.strip()]
        inputs = [_pair(line, number) for number, line in enumerate(names, start=1)] if pairs else names
    if int8:
        judge = _in_int8(judge, inputs[:SAMPLED])
    shown = top if top is not None else 5 if len(names) == 1 else 1
    with bar(len(names)) as progress:
        verdicts = classify(judge, inputs, shown, batch=batch, skip_broken=True, progress=progress)
    if as_json:
        said = [{"input": name} | _json(verdict) for name, verdict in zip(names, verdicts, strict=True)]
        print(json.dumps({"model": str(judge.origin), "inputs": said}, ensure_ascii=False))
    else:
        printed = "\n".join(_lines(names, verdicts))
        print(harmless(printed) if sys.stdout.isatty() else printed)
    broken = [verdict.problem for verdict in verdicts if verdict.problem]
    for problem in broken:
        say(f"clearhead: {problem}")
    if broken:
        raise typer.Exit(2)


def _in_int8(judge: Model, inputs: Sequence[Any]) -> Model:
    """The model with weights in 8 bits; how often the first inputs keep their class is said."""
    light = light_copy(judge)
    both = [[v for v in classify(model, inputs, 1, skip_broken=True) if v.classes] for model in (judge, light)]
    same = [one.classes[0].name == other.classes[0].name for one, other in zip(*both, strict=True)]
    size = shrunk(bytes_of(judge), bytes_of(light))
    say(f"{size}; the class is the same for {sum(same)} of {len(same)} inputs")
    return light


def _pictures(files: Sequence[Path]) -> list[str]:
    """The files themselves, in place of a folder the pictures below it; names from stdin where none is given."""
    named = [Path(line) for line in read_lines([Path("-")], []) if line.strip()] if _from_stdin(files) else list(files)
    found: list[str] = []
    for path in named:
        below = sorted(file for file in path.rglob("*") if file.suffix.lower() in PICTURES) if path.is_dir() else [path]
        if not below:
            raise ClearheadError(f"{path} has no picture in it")
        found += map(str, below)
    return found


def _from_stdin(files: Sequence[Path]) -> bool:
    if not files and sys.stdin.isatty():
        raise ClearheadError("no picture was given: name files or folders, or pipe their names in")
    return not files or [str(file) for file in files] == ["-"]


def _pair(line: str, number: int) -> tuple[str, str]:
    first, tab, second = line.partition("\t")
    if not tab or "\t" in second:
        raise ClearheadError(f"text {number} holds {line.count(chr(9)) + 1} fields, not two parted by a tab")
    return first, second


def _json(verdict: Verdict) -> dict[str, Any]:
    return {key: value for key, value in asdict(verdict).items() if value not in (None, ())}


def _lines(names: Sequence[str], verdicts: Sequence[Verdict]) -> list[str]:
    """Probability (or value), class and input, aligned; the input stands at its first class alone."""
    rows = []
    for name, verdict in zip(names, verdicts, strict=True):
        found = [(f"{score.probability:.4f}", score.name) for score in verdict.classes]
        found = found or [("-", "can't be read") if verdict.value is None else (f"{verdict.value:.4f}", "")]
        rows += [(*row, "" if place else name) for place, row in enumerate(found)]
    return columns(rows)
