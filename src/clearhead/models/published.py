"""What the papers and the lecture decks state: sizes, results and costs, each with where it is printed.

These are other people's figures, kept word for word beside our own counts. The data is in `published.json`.
"""

import json
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Paper:
    """Enough of a reference to find the paper."""

    authors: str
    year: int
    venue: str
    title: str


@dataclass(frozen=True)
class PublishedTable:
    """One table as printed: every cell is text, and a cell that the source leaves out is "-"."""

    name: str
    title: str
    paper: Paper | None
    source: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def origin(self) -> str:
        """One line that says where the figures come from."""
        if self.paper is None:
            return self.source
        return f"{self.paper.authors} {self.paper.year}, {self.paper.title} ({self.paper.venue}), {self.source}"


def tables() -> list[PublishedTable]:
    """All published tables: the Transformer first, then its family in language, then vision."""
    text = resources.files("clearhead.models").joinpath("published.json").read_text(encoding="utf-8")
    data = json.loads(text)
    papers = {key: Paper(**fields) for key, fields in data["papers"].items()}
    return [_table(fields, papers) for fields in data["tables"]]


def _table(fields: dict, papers: dict[str, Paper]) -> PublishedTable:
    paper = None if fields["paper"] is None else papers[fields["paper"]]
    rows = tuple(tuple(row) for row in fields["rows"])
    return PublishedTable(**{**fields, "paper": paper, "columns": tuple(fields["columns"]), "rows": rows})
