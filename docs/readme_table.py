"""The tables of models and recipes in README.md, written between their markers from the package (`make docs`)."""

from collections.abc import Callable
from pathlib import Path

import clearhead as ch
from clearhead.recipes import RECIPES

README = Path(__file__).resolve().parent.parent / "README.md"


def models() -> str:
    rows = [
        f"| `{entry.name}` | {entry.family} | {entry.params:,} | {entry.paper or ''} |" for entry in ch.list_models()
    ]
    return "\n".join(["| name | family | parameters | the paper says |", "|---|---|---|---|", *rows]) + "\n"


def recipes() -> str:
    rows = [f"| `{recipe.name}` | {recipe.costs} | {recipe.gives} |" for recipe in RECIPES.values()]
    return "\n".join(["| recipe | costs | gives |", "|---|---|---|", *rows]) + "\n"


TABLES: dict[str, Callable[[], str]] = {"models": models, "recipes": recipes}


def with_tables(text: str) -> str:
    for name, table in TABLES.items():
        opens, closes = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, _, rest = text.partition(opens)
        _, _, after = rest.partition(closes)
        text = before + opens + table() + closes + after
    return text


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {len(ch.list_models())} models and {len(RECIPES)} recipes into {README.name}")
