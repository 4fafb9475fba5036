"""docs/SITES.md, written from the catalogue: `python -m clearhead.trace.document docs/SITES.md`."""

import sys
from pathlib import Path

from .sites import SITES, VARIANTS, Site

LETTERS = {
    "B": "batch: how many inputs run at once",
    "L": "tokens of the sequence that asks",
    "M": "tokens of the sequence that is asked, the same one in self-attention",
    "N": "patches of an image",
    "H": "heads (of a site of `input`: the image's height)",
    "W": "the image's width",
    "C": "the image's channels",
    "p": "a patch's edge in pixels",
    "d": "the model's width",
    "d_k": "width of a head's queries and keys",
    "d_v": "width of a head's values",
    "f": "width of the feed-forward layer",
    "V": "words of the vocabulary",
    "classes": "classes to choose from",
}

HEAD = """\
# Every site of a pass

A site is a name for a value that a pass computes. `clearhead.record(model, input)` returns a mapping from these names
to tensors, `--site` of `clearhead trace` chooses among them by globs, and a `Recorder` may put another value in a
site's place. The names are an interface that other code may rely on. This page is written from
`src/clearhead/trace/sites.py` by `make docs`, and a test compares the two.

A `*` in a name stands for the number of a block, from 0. A site that fires more than once in a pass has `#1`, `#2`
behind its name. Where a model lacks a part, the part's sites don't fire: `deck`, for example, has no norm behind its
last block, and nothing is masked where every query may look everywhere.

| letter | what it counts |
|---|---|
"""


def markdown() -> str:
    """The whole page: how to read it, then a table for each family and variant of one."""
    letters = "".join(f"| `{letter}` | {meaning} |\n" for letter, meaning in LETTERS.items())
    return HEAD + letters + "".join(_table(family, sites) for family, sites in (SITES | VARIANTS).items())


def _table(family: str, sites: list[Site]) -> str:
    rows = "".join(f"| `{site.name}` | `{site.shape}` | {site.meaning} |\n" for site in sites)
    return f"\n## {family}\n\n| site | shape | what it is |\n|---|---|---|\n{rows}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown(), encoding="utf-8")
