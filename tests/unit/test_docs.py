"""The pages that are written from the code say what the code says today."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import clearhead as ch

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_lists_every_model_with_its_true_count_and_every_recipe_with_what_it_gave():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert script("readme_table").with_tables(readme) == readme, (
        "a model or a recipe has changed: `make docs` writes the tables anew"
    )


def test_the_picture_shows_the_numbers_of_the_recorded_pass():
    drawn = (ROOT / "docs" / "images" / "deck.svg").read_text(encoding="utf-8")
    trace = ch.record(ch.create("deck", seed=0, device="cpu"))
    weights = trace["decoder.blocks.0.attention.weights"].flatten().tolist()
    shown = [float(number) for number in re.findall(r'class="n">(-?\d+\.\d\d)<', drawn)]
    assert all(any(abs(weight - number) <= 0.0051 for number in shown) for weight in weights)
    assert drawn.count("-inf") == 10  # the upper triangle of 5 x 5


@pytest.mark.parametrize("page", ["README.md", "docs/TOUR.md", "docs/ERRATA.md"])
def test_every_file_that_a_page_names_exists(page: str):
    text = (ROOT / page).read_text(encoding="utf-8")
    rooms = [ROOT, ROOT / "src" / "clearhead", ROOT / "docs", *(ROOT / "src" / "clearhead").iterdir()]
    for name in re.findall(r"`([\w/]+\.(?:py|md|json|svg|toml))`", text):
        assert any((room / name).exists() for room in rooms), f"{page} names {name}"
