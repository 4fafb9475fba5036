"""`clearhead similar`: which lines are alike, or how alike one word is to itself in several sentences."""

import json
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..errors import ClearheadError
from ..models import Model
from ..tasks import Match, similar, word_in_context
from .lines import bar, read_lines, trained


def command(
    model: Annotated[str, typer.Argument(help="The folder of a trained BERT or MiniLM.")],
    files: Annotated[
        list[Path] | None, typer.Argument(help="Text files, a line a text; `-` or nothing is stdin.")
    ] = None,
    query: Annotated[str | None, typer.Option("-q", "--query", help="Rank the lines by likeness to this.")] = None,
    word: Annotated[
        str | None, typer.Option(help="Compare this word's vectors where it occurs: contextual against static.")
    ] = None,
    text: Annotated[list[str] | None, typer.Option("-t", "--text", help="A line itself. May be repeated.")] = None,
    count: Annotated[int, typer.Option("-n", "--count", help="How many lines or pairs to show.")] = 10,
    pooling: Annotated[str, typer.Option(help="mean: over a line's tokens; cls: the first token's vector.")] = "mean",
    batch: Annotated[int, typer.Option(help="Lines that run together.")] = 32,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with the cosines.")] = False,
) -> None:
    """Rank lines by their cosine with a query, or without one find the pairs that are most alike.

    With --word, show that a word has one vector in the token table and another in every sentence.

    Example: `clearhead similar path/to/minilm news.txt -q "rates went up"`

    Example: `clearhead similar path/to/minilm --word bank -t "the bank of the river" -t "money in the bank"`
    """
    if word is not None and query is not None:
        raise ClearheadError("--word and --query ask two things: give one of them")
    lines = {n: line for n, line in enumerate(read_lines(files or [], text or []), start=1) if line.strip()}
    encoder = trained(model, device)
    if word is not None:
        answer = _word(encoder, word, lines)
    else:
        with bar(len(lines)) as progress:
            found = similar(
                encoder, list(lines.values()), query, count=count, pooling=pooling, batch=batch, progress=progress
            )
        asked = {"query": query} if query is not None else {}
        answer = asked | {"matches": [_match(match, lines) for match in found]}
    if as_json:
        print(json.dumps({"model": str(encoder.origin), **answer}, ensure_ascii=False))
    else:
        _print(answer)


def _match(match: Match, lines: dict[int, str]) -> dict[str, Any]:
    """A match with the lines themselves; lines are counted from 1, blank ones too."""
    numbers = list(lines)
    texts = [numbers[at] for at in (match.first, match.second) if at is not None]
    return {"score": match.score, "lines": [{"line": n, "text": lines[n]} for n in texts]}


def _word(model: Model, word: str, lines: dict[int, str]) -> dict[str, Any]:
    """Every two occurrences of the word, with the cosine of its static and of its contextual vectors."""
    found = word_in_context(model, word, list(lines.values()))
    where = [list(lines)[sentence] for sentence in found.sentences]
    pairs = [
        {
            "lines": [where[a], where[b]],
            "static": found.static[a, b].item(),
            "contextual": found.contextual[a, b].item(),
        }
        for a, b in combinations(range(len(where)), 2)
    ]
    return {"word": word, "sentences": lines, "pairs": pairs}


def _print(answer: dict[str, Any]) -> None:
    console = Console(highlight=False)
    if "word" not in answer:
        table = Table("cosine", "line", "text", box=None)
        for match in answer["matches"]:
            for position, line in enumerate(match["lines"]):
                score = "" if position else f"{match['score']:.4f}"
                table.add_row(score, str(line["line"]), escape(line["text"]))
        console.print(table)
        return
    for number, sentence in answer["sentences"].items():
        console.print(f"{number}: {escape(sentence)}")
    word = escape(answer["word"])
    table = Table("lines", f"static {word}", f"contextual {word}", box=None)
    for pair in answer["pairs"]:
        table.add_row("{} and {}".format(*pair["lines"]), f"{pair['static']:.4f}", f"{pair['contextual']:.4f}")
    console.print(table)
