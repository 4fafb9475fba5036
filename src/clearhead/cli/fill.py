"""`clearhead fill`: the words that could stand in a text's blanks."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ClearheadError
from ..models import Model
from ..tasks.fill import Filled, count_blanks, fill
from .lines import bar, columns, harmless, read_lines, trained


def command(
    model: Annotated[str, typer.Argument(help="The folder of a trained BERT (task fill or pretrain) or T5.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Texts with [MASK] or ___ in them; `-` or nothing is stdin, line by line."),
    ] = None,
    top: Annotated[int, typer.Option("-k", "--top", help="How many words for each blank.")] = 5,
    one_by_one: Annotated[
        bool, typer.Option("--one-by-one", help="Fill the surest blank first, then read again for the others.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with every word and probability.")] = False,
) -> None:
    """Fill the blanks of a text: the most likely words for each, with their probabilities.

    A blank is written as `___` or as the model's own token for it, such as `[MASK]`.

    Example: `clearhead fill path/to/bert "She put the ___ in the bank."`
    """
    given = texts or []
    lines = read_lines([Path("-")] if "-" in given or not given else [], [text for text in given if text != "-"])
    lines = {number: line for number, line in enumerate(lines, start=1) if line.strip()}
    reader = trained(model, device)
    _check(reader, lines)
    with bar(len(lines)) as progress:
        found = {}
        for number, line in lines.items():
            found[number] = fill(reader, line, top, one_by_one)
            progress(1)
    if as_json:
        said = [
            {"line": number, "text": lines[number], "filled": filled.text, "blanks": asdict(filled)["blanks"]}
            for number, filled in found.items()
        ]
        print(json.dumps({"model": str(reader.origin), "texts": said}, ensure_ascii=False))
        return
    for number, filled in found.items():
        printed = "\n".join([lines[number], *_lines(filled), f"  {filled.text}"])
        print(harmless(printed) if sys.stdout.isatty() else printed)


def _check(model: Model, lines: dict[int, str]) -> None:
    """Every text before any work."""
    for number, line in lines.items():
        try:
            count_blanks(model, line)
        except ClearheadError as mistake:
            raise ClearheadError(f"line {number}: {mistake}" if len(lines) > 1 else str(mistake)) from None


def _lines(filled: Filled) -> list[str]:
    """A line a word; the first of each blank says which it is."""
    rows = [
        ("" if place else f"  blank {blank}", f"{guess.probability:.4f}", guess.word)
        for blank, guesses in enumerate(filled.blanks, start=1)
        for place, guess in enumerate(guesses)
    ]
    return columns(rows)
