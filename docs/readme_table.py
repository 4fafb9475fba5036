"""The table of models in README.md, written between its two markers from the registry (`make docs`)."""

from pathlib import Path

import clearhead as ch

README = Path(__file__).resolve().parent.parent / "README.md"
OPEN, CLOSE = "<!-- models -->\n", "<!-- /models -->"


def table() -> str:
    rows = [
        f"| `{entry.name}` | {entry.family} | {entry.params:,} | {entry.paper or ''} |" for entry in ch.list_models()
    ]
    return "\n".join(["| name | family | parameters | the paper says |", "|---|---|---|---|", *rows]) + "\n"


def with_table(text: str) -> str:
    before, _, rest = text.partition(OPEN)
    _, _, after = rest.partition(CLOSE)
    return before + OPEN + table() + CLOSE + after


if __name__ == "__main__":
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {len(ch.list_models())} models into {README.name}")
