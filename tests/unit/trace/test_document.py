"""docs/SITES.md says what the catalogue says, and the catalogue's shapes are those of a real pass."""

import fnmatch
import re
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.models import FAMILIES
from clearhead.trace import SITES, VARIANTS
from clearhead.trace.document import LETTERS, markdown

PAGE = Path(__file__).resolve().parents[3] / "docs" / "SITES.md"


def test_the_page_is_what_the_catalogue_says():
    assert PAGE.read_text(encoding="utf-8") == markdown(), "the catalogue has changed: `make docs` writes the page anew"


def test_every_site_stands_in_its_familys_table_and_every_row_has_three_cells():
    sections = dict(re.findall(r"^## (.+)\n([^#]*)", markdown(), re.MULTILINE))
    assert set(sections) == set(SITES | VARIANTS)
    for family, text in sections.items():
        rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| `")]
        assert [cells[0].strip(" `") for cells in rows] == [site.name for site in (SITES | VARIANTS)[family]]
        assert all(len(cells) == 3 and all(cell.strip() for cell in cells) for cells in rows)


def test_every_letter_of_a_shape_is_explained_and_every_explained_one_is_used():
    used = {
        part
        for sites in (SITES | VARIANTS).values()
        for site in sites
        for part in re.split(r"[,*+]", site.shape)
        if not part.isdecimal()
    }
    assert used == set(LETTERS)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_recorded_value_has_as_many_dimensions_as_the_catalogue_says(name: str):
    family = FAMILIES[name]
    model = family.model(family.shrunken).eval()
    model.initialise(torch.Generator().manual_seed(0))
    for site, value in clearhead.record(model, model.example()).items():
        [known] = [known for known in SITES[name] if fnmatch.fnmatchcase(site, known.name)]
        assert value.ndim == len(known.shape.split(",")), site
