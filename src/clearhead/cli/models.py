"""`clearhead models`: every name with its true parameter count."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..models import list_models
from ..models.published import tables


def command(
    as_json: Annotated[bool, typer.Option("--json", help="A list of objects: name, family, params, paper.")] = False,
    published: Annotated[
        bool, typer.Option("--published", help="The papers' tables instead: sizes, accuracies, costs.")
    ] = False,
) -> None:
    """List the models, with their true parameter counts and the paper's figure where it differs.

    Example: `clearhead models --json`
    """
    if published:
        _published(as_json)
        return
    entries = list_models()
    if as_json:
        print(json.dumps([{k: v for k, v in asdict(entry).items() if v is not None} for entry in entries], indent=2))
        return
    table = Table(title="models (parameters counted, not quoted)", title_justify="left")
    for heading in ("name", "family", "parameters", "the paper says"):
        table.add_column(heading, justify="right" if heading == "parameters" else "left")
    for entry in entries:
        table.add_row(entry.name, entry.family, f"{entry.params:,}", entry.paper or "")
    Console().print(table)


def _published(as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(table) for table in tables()], indent=2, ensure_ascii=False))
        return
    console = Console()
    for published in tables():
        table = Table(title=published.title, caption=published.origin, title_justify="left", caption_justify="left")
        for column in published.columns:
            table.add_column(column)
        for row in published.rows:
            table.add_row(*map(str, row))
        console.print(table)
        console.print()
