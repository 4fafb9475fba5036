"""The sets that need no download: the sorting game, the standard library, and dates in six languages."""

import builtins
import datetime
import sysconfig
from pathlib import Path

import pytest

from clearhead.data.embedded import letters, python
from clearhead.data.embedded_dates import DIGITS, FORMATS, LANGUAGES, dates, written
from clearhead.errors import ClearheadError

LONG = {"en": "May 3, 2024", "ne": "२०२४ मे ३", "de": "3. Mai 2024", "fr": "3 mai 2024", "es": "3 de mayo de 2024"}


def test_letters_are_all_729_words_with_a_quarter_held_out():
    dataset = letters()
    words = [*dataset.parts["train"].sources, *dataset.parts["test"].sources]
    assert len(words) == len(set(words)) == 3**6 and {len(word) for word in words} == {6}
    assert len(dataset.parts["test"]) == 729 // 4
    for part in dataset.parts.values():
        assert [sorted(word) for word in part.sources] == [[*target] for target in part.targets]
    assert letters() == dataset


def test_pythons_library_is_split_by_file_and_holds_no_tests():
    dataset = python()
    texts = {part: set(rows.documents) for part, rows in dataset.parts.items()}
    assert len(texts["train"]) > 300 and min(map(len, texts.values())) >= 10
    assert not texts["train"] & (texts["valid"] | texts["test"])
    argparse = (Path(sysconfig.get_path("stdlib")) / "argparse.py").read_text(encoding="utf-8")
    assert sum(argparse in part for part in texts.values()) == 1
    assert not any("import idlelib" in text[:200] for part in texts.values() for text in part)
    assert python() == dataset and dataset.notes[0].startswith("the standard library of Python 3.")


def test_the_library_is_read_in_order_without_tests_links_or_files_for_one_machine(tmp_path):
    kept = {f"m{i:02}.py": f"x = {i}\n" for i in range(40)} | {"pkg/a.py": "a = 1\n"}
    dropped = ("test/a.py", "pkg/tests/b.py", "idlelib/c.py", "turtledemo/d.py", "site-packages/e.py", "config-3/f.py")
    for name, text in kept.items() | {(name, "y = 1\n") for name in (*dropped, "_sysconfigdata_x.py", "notes.txt")}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "link.py").symlink_to("/etc/hostname")
    (tmp_path / "empty.py").write_text("\n")
    (tmp_path / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\nx = '\xe9'\n")
    (tmp_path / "broken.py").write_bytes(b"x = '\xe9'\n")
    dataset = python(tmp_path)
    documents = [text for part in dataset.parts.values() for text in part.documents]
    assert sorted(documents) == sorted([*kept.values(), "# -*- coding: latin-1 -*-\nx = 'é'\n"])
    order = [text for text in dataset.parts["train"].documents if text.startswith("x = ")]
    assert order == sorted(order, key=lambda text: int(text[4:]))
    assert "1 of 43 files left out: broken.py: " in dataset.notes[1]


def test_a_folder_without_sources_is_refused(tmp_path):
    with pytest.raises(ClearheadError, match="holds no Python sources"):
        python(tmp_path)


def test_dates_are_split_by_day_so_that_no_language_gives_a_test_day_away():
    dataset = dates()
    days = {part: {_day(target) for target in rows.targets if _day(target)} for part, rows in dataset.parts.items()}
    assert not days["train"] & (days["valid"] | days["test"]) and not days["valid"] & days["test"]
    assert len(dataset.parts["train"]) > 60_000 and len(dataset.parts["test"]) > 1_700
    assert dates() == dataset and dates(seed=1) != dataset


def _day(target: str) -> datetime.date | None:
    """The day of an English target, read back without Babel."""
    try:
        return datetime.datetime.strptime(target, "%B %d, %Y").date()
    except ValueError:
        return None


def test_every_direction_is_there_marked_and_in_every_format():
    dataset = dates()
    marks = {source.split(": ")[0] for source in dataset.parts["train"].sources}
    assert marks == {f"{a}>{b}" for a in LANGUAGES for b in LANGUAGES if a != b}
    rows = zip(dataset.parts["test"].sources, dataset.parts["test"].targets, strict=True)
    nepali = [(source, target) for source, target in rows if source.startswith("en>ne")]
    assert nepali and all(set(target) & set(DIGITS["deva"]) and not set(target) & set("0123") for _, target in nepali)


def test_one_direction_needs_no_mark():
    dataset = dates(["ne>en"], per_date=1)
    assert dataset.languages == ("ne", "en") and ">" not in dataset.parts["train"].sources[0]
    assert sum(map(len, dataset.parts.values())) == 36525


@pytest.mark.parametrize("language", LONG)
def test_a_day_is_written_as_its_language_writes_it(language):
    assert written(datetime.date(2024, 5, 3), language, "long") == LONG[language]


def test_no_format_leaves_the_year_open_and_full_names_the_day_of_the_week():
    day = datetime.date(2031, 12, 9)
    for language in LANGUAGES:
        for style in FORMATS:
            text = written(day, language, style)
            assert "2031" in text.translate(str.maketrans(DIGITS["deva"], DIGITS["latn"])), (language, style)
    assert written(day, "ne", "full") == "२०३१ डिसेम्बर ९, मङ्गलबार" and written(day, "de", "numbers") == "09.12.2031"


def test_the_formats_are_babels_own_but_for_the_digits():
    babel = pytest.importorskip("babel.dates")
    numbers = str.maketrans(DIGITS["deva"], DIGITS["latn"])
    for month in range(1, 13):
        day = datetime.date(1987, month, 7 + month)
        for language in LANGUAGES:
            for style in ("medium", "long", "full"):
                assert written(day, language, style).translate(numbers) == babel.format_date(
                    day, style, locale=language
                )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"directions": ["en>nee"]}, "no direction 'en>nee' of dates; did you mean 'en>ne'"),
        ({"directions": []}, "dates need a direction"),
        ({"per_date": 0}, "at least one writing"),
    ],
)
def test_a_direction_that_is_none_is_refused(options, message):
    with pytest.raises(ClearheadError, match=message):
        dates(**options)


def test_without_babel_it_is_named(monkeypatch):
    from clearhead.data import embedded_dates

    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("babel"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    embedded_dates._writer.cache_clear()
    with pytest.raises(ClearheadError, match="pip install Babel"):
        dates(["en>de"])
