"""`clearhead answer`: questions about a passage."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ClearheadError
from ..tasks.answer import LONGEST, WINDOW, Span, answers
from .lines import bar, columns, harmless, text_of, trained

AROUND = 24  # characters of the passage that are shown on both sides of an answer


def command(
    model: Annotated[str, typer.Argument(help="The folder of a trained BERT of task answer.")],
    question: Annotated[list[str], typer.Option("-q", "--question", help="What to ask. May be repeated.")],
    passage: Annotated[
        Path, typer.Option("-p", "--passage", help="The file with the passage; `-` is stdin.", show_default=False)
    ] = Path("-"),
    top: Annotated[int, typer.Option("-k", "--top", help="How many answers to each question.")] = 1,
    longest: Annotated[int, typer.Option(help="The most tokens of an answer.")] = LONGEST,
    window: Annotated[int, typer.Option(help="Tokens that are read at once.")] = WINDOW,
    overlap: Annotated[
        int | None, typer.Option(help="Tokens that neighbouring windows share. Unless given 128, at most half.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Windows that run together.")] = 16,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object: each answer with its characters and probability.")
    ] = False,
) -> None:
    """Answer questions with the stretch of a passage that fits best.

    A passage longer than the window is read in several that overlap; the best answer over all of them is given.

    Example: `clearhead answer path/to/bert-squad --question "Who wrote it?" --passage article.txt`
    """
    if str(passage) == "-" and sys.stdin.isatty():
        raise ClearheadError("no passage was given: name a file with --passage, or pipe one in")
    text = text_of(passage)
    reader = trained(model, device)
    with bar(len(question), long=2) as progress:
        found: list[list[Span]] = []
        for asked in question:
            found += answers(reader, [(asked, text)], top, longest=longest, window=window, overlap=overlap, batch=batch)
            progress(1)
    if as_json:
        said = [
            {"question": asked, "answers": [asdict(span) for span in spans]}
            for asked, spans in zip(question, found, strict=True)
        ]
        print(json.dumps({"model": str(reader.origin), "questions": said}, ensure_ascii=False))
        return
    for asked, spans in zip(question, found, strict=True):
        heading = [asked] if len(question) > 1 else []
        printed = "\n".join(heading + columns([_row(text, span) for span in spans]))
        print(harmless(printed) if sys.stdout.isatty() else printed)


def _row(passage: str, span: Span) -> tuple[str, str, str]:
    """Probability, answer, and what stands around it in the passage."""
    before, after = passage[max(0, span.start - AROUND) : span.start], passage[span.end : span.end + AROUND]
    around = " ".join(f"...{before}[{span.text}]{after}...".split())
    return f"{span.probability:.4f}", " ".join(span.text.split()), around
