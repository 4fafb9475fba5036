"""The registry: every named set is described, opened lazily, and its files checked; misspelt names get the nearest."""

import hashlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clearhead.data import sets, text_files
from clearhead.data.kinds import Dataset
from clearhead.data.sets import check_set, list_sets, open_set
from clearhead.errors import ClearheadError
from tests.minilm import data_set

TEXT_SETS = {
    *(
        "multi30k",
        "tatoeba",
        "tinyshakespeare",
        "wikitext2",
        "sst2",
        "imdb",
        "mrpc",
        "stsb",
        "rte",
        "cola",
        "squad",
        "flores",
    ),
    *("ntrex", "tico19", "gettext", "tinystories", "gutenberg", "wordsim"),
}
PICTURE_SETS = {"cifar10", "cifar100", "mnist", "pets", "flowers102", "imagenet"}
EMBEDDED = {"digits", "dates", "phrases", "python", "letters"}


def refused(function, *args: object, **options: object) -> str:
    with pytest.raises(ClearheadError) as caught:
        function(*args, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_set_is_listed_with_what_it_is_and_where_it_comes_from(tmp_path):
    listed = {one.name: one for one in list_sets(tmp_path)}
    assert listed.keys() == TEXT_SETS | PICTURE_SETS | EMBEDDED
    for name, one in listed.items():
        assert one.about and "\n" not in one.about and len(one.about) < 100
        assert one.embedded == one.present == (name in EMBEDDED) and (one.fetch is None) == one.embedded
        assert one.kind in ("pictures", "labelled", "scored", "parallel", "running", "questions")
    assert listed["squad"].size == 1034481 and listed["imagenet"].size is None


@pytest.mark.parametrize("name", sorted(TEXT_SETS | PICTURE_SETS | EMBEDDED))
def test_every_set_has_a_reader_that_takes_a_folder_unless_it_is_embedded(name):
    reader = sets._reader(name)
    assert reader.__name__ == name
    assert ("folder" in inspect.signature(reader).parameters) or name in EMBEDDED


def test_listing_imports_no_reader():
    modules = sorted({f"clearhead.data.{facts['reader'].split(':')[0]}" for facts in text_files.all_facts().values()})
    code = f"import sys; from clearhead.data.sets import list_sets; list_sets(); print(sys.modules.keys() & {modules})"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_environment())
    assert len(modules) == 9 and shown.stdout.strip() == "set()"


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(sets.__file__).parents[2])}


def test_a_set_is_opened_with_its_readers_options(tmp_path):
    for language, text in (("eng", "a\n"), ("deu", "ä\n")):
        kind = "src" if language == "eng" else "ref"
        (tmp_path / f"newstest2019-{kind}.{language}.txt").write_text(text)
    dataset = open_set("ntrex", tmp_path, source="en", target="de")
    assert isinstance(dataset, Dataset) and list(dataset.parts["test"].targets) == ["ä"]
    assert "ntrex has no option 'sorce': it takes source, target; did you mean 'source'?" in refused(
        open_set, "ntrex", tmp_path, sorce="en"
    )
    assert refused(open_set, "letters", length=3) == "letters has no option 'length': it takes none"


def test_an_embedded_set_needs_no_folder_and_takes_none(tmp_path, monkeypatch):
    monkeypatch.delenv("CLEARHEAD_DATA", raising=False)
    assert len(open_set("letters").parts["test"]) == 182
    assert open_set("letters", tmp_path) == open_set("letters")
    assert len(open_set("python", tmp_path).parts["train"]) > 300


def test_an_unknown_name_gets_the_nearest_and_vtab_is_named_as_not_supported():
    assert refused(open_set, "multi30") == "no data set is called 'multi30'; did you mean 'multi30k'?"
    assert "known are digits, dates" in refused(open_set, "zzz")
    for function in (open_set, check_set):
        assert refused(function, "VTAB").startswith("VTAB is not supported")


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A registry of one set in two layouts."""
    contents = {"a.txt": b"x" * 5000, "sub/b.txt": b"y"}
    first = {file: [len(raw), hashlib.sha256(raw).hexdigest()] for file, raw in contents.items()}
    second = {"whole.txt": [1, hashlib.sha256(b"z").hexdigest()]}
    known = {"kind": "running", "about": "", "reader": "text_running:wikitext2", "folders": ["here", "Official"]}
    facts = {"small": {**known, "fetch": "it (somewhere)", "layouts": [first, second]}}
    monkeypatch.setattr(text_files, "all_facts", lambda: facts)
    (tmp_path / "here" / "sub").mkdir(parents=True)
    for file, raw in contents.items():
        (tmp_path / "here" / file).write_bytes(raw)
    return tmp_path


def test_a_whole_set_passes_and_progress_reaches_the_end(small, monkeypatch):
    monkeypatch.setattr(sets, "CHUNK", 1000)
    told: list[tuple[int, int]] = []
    check = check_set("small", small, lambda done, total: told.append((done, total)))
    assert check.whole and check.good == ("a.txt", "sub/b.txt") and check.folder == small / "here"
    assert told[0] == (1000, 5001) and told[-1] == (5001, 5001) and told == sorted(told)


def test_a_changed_a_shorter_and_a_missing_file_are_named(small):
    (small / "here" / "a.txt").write_bytes(b"x" * 4999 + b"!")
    (small / "here" / "sub" / "b.txt").unlink()
    check = check_set("small", small)
    assert not check.whole and check.missing == ("sub/b.txt",)
    assert check.wrong == ("a.txt: the right size, but another checksum",)
    (small / "here" / "a.txt").write_bytes(b"x")
    assert check_set("small", small).wrong == ("a.txt: 1 bytes, not 5,000",)


def test_a_file_that_can_not_be_read_is_told_in_one_line(small, monkeypatch):
    def locked(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", locked)
    assert refused(check_set, "small", small) == f"{small / 'here/a.txt'} can't be read: Permission denied"


def test_another_layout_is_recognised_and_an_unknown_one_is_said(small):
    for file in ("a.txt", "sub/b.txt"):
        (small / "here" / file).unlink()
    (small / "here" / "sub").rmdir()
    (small / "here" / "SOURCE.md").write_text("about it")
    assert "is missing: fetch it (somewhere) and put it there" in refused(check_set, "small", small)
    (small / "Official").mkdir()
    (small / "Official" / "other.txt").write_text("?")
    check = check_set("small", small)
    assert not check.whole and check.note == "no checksums are known for the files that are there"
    (small / "Official" / "whole.txt").write_text("z")
    assert check_set("small", small).good == ("whole.txt",)


def test_an_embedded_set_has_nothing_to_check():
    check = check_set("letters")
    assert check.whole and check.note and "no file to check" in check.note


def test_without_a_folder_the_variable_is_named(monkeypatch):
    monkeypatch.delenv("CLEARHEAD_DATA", raising=False)
    assert "set CLEARHEAD_DATA to one that holds squad_dev" in refused(check_set, "squad")
    assert not next(one for one in list_sets() if one.name == "squad").present


def test_the_registry_file_is_well_formed():
    known = json.loads(Path(sets.__file__).with_name("sets.json").read_text(encoding="utf-8"))
    for name, facts in known.items():
        assert facts.keys() == {"kind", "about", "reader", "folders", "fetch", "layouts"}, name
        for layout in facts["layouts"]:
            for file, (size, checksum) in layout.items():
                assert not Path(file).is_absolute() and ".." not in file and size > 0 and len(checksum) == 64


@pytest.mark.parametrize("name", sorted(TEXT_SETS))
def test_the_files_at_hand_are_the_ones_that_are_known_and_open(name):
    folder = data_set(text_files.facts(name)["folders"][0])
    check = check_set(name, folder)
    any_files = not text_files.facts(name)["layouts"]  # catalogues: whichever there are
    assert check.whole or (any_files and not check.wrong), (check.missing, check.wrong)
    dataset = open_set(name, folder)
    assert dataset.name == name and dataset.kind == text_files.facts(name)["kind"]
    assert next(one for one in list_sets(folder) if one.name == name).present
