"""`gettext`: pairs of texts from catalogues of messages, which Python's own reader reads too."""

import gettext as library
import struct

import pytest

from clearhead.data.catalogues import messages
from clearhead.data.sets import open_set
from clearhead.errors import ClearheadError

HEADER = "Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=(n != 1);\n"
SAID = {
    "": HEADER,
    "_Open": "खोल्नुहोस् (_O)",
    "Save  the file...": "फाइल बचत गर्नुहोस्...",
    "menu\x04Open": "खोल्नुहोस्",
    "One file\x00Many files": "एउटा फाइल\x00धेरै फाइल",
    "Delete %s": "%s मेट्नुहोस्",
    "<b>Bold</b>": "<b>गाढा</b>",
    "GNOME": "GNOME",
    "Mail": "E-mail",
    "12:30": "१२:३०",
}


def catalogue(folder, said=SAID, order="<", name="ne/LC_MESSAGES/one.mo"):
    """Written as GNU's manual describes the form: two tables of lengths and places, then the texts."""
    rows = sorted((english.encode(), other.encode()) for english, other in said.items())
    start, texts, tables = 28 + 16 * len(rows), b"", []
    for side in (0, 1):
        for row in rows:
            tables += [len(row[side]), start + len(texts)]
            texts += row[side] + b"\x00"
    head = struct.pack(f"{order}7I", 0x950412DE, 0, len(rows), 28, 28 + 8 * len(rows), 0, 0)
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(head + struct.pack(f"{order}{len(tables)}I", *tables) + texts)
    return file


@pytest.mark.parametrize("order", ["<", ">"])
def test_messages_are_those_that_pythons_own_reader_finds(tmp_path, order):
    file = catalogue(tmp_path, order=order)
    with file.open("rb") as opened:
        theirs = library.GNUTranslations(opened)
    ours = dict(messages(file))
    plain = [english for english in SAID if english and "\x00" not in english and "\x04" not in english]
    assert all(ours[english] == theirs.gettext(english) for english in plain)
    assert ours["One file"] == theirs.ngettext("One file", "Many files", 1)
    assert ours["Open"] == theirs.pgettext("menu", "Open")
    assert len(ours) == len(SAID) - 1


def test_pairs_are_text_without_marks_each_once_and_in_the_languages_letters(tmp_path):
    catalogue(tmp_path / "gettext" / "usr")
    catalogue(tmp_path / "gettext", {"Close": "बन्द", "Open": "खोल्नुहोस्"}, name="ne/LC_MESSAGES/two.mo")
    dataset = open_set("gettext", tmp_path)
    pairs = dataset.parts["train"]
    assert set(zip(pairs.targets, pairs.sources, strict=True)) == {
        ("Open", "खोल्नुहोस्"),
        ("Save the file", "फाइल बचत गर्नुहोस्"),
        ("One file", "एउटा फाइल"),
        ("Close", "बन्द"),
    }
    assert dataset.languages == ("ne", "en")
    assert dataset.notes == ("2 catalogues hold 11 messages, of which 4 are text and not there before",)


def test_a_language_in_latin_letters_keeps_what_it_says_in_them(tmp_path):
    catalogue(tmp_path, {"Open": "Öffnen", "Close": "Zu", "Mail": "Mail"}, name="de/LC_MESSAGES/one.mo")
    pairs = open_set("gettext", tmp_path, source="en", target="de").parts["train"]
    assert (pairs.sources, pairs.targets) == (["Close", "Open"], ["Zu", "Öffnen"])


def test_a_broken_catalogue_is_left_out_and_named(tmp_path):
    catalogue(tmp_path, {"Close": "बन्द"})
    whole = catalogue(tmp_path, name="ne/LC_MESSAGES/two.mo")
    whole.write_bytes(whole.read_bytes()[:-20])
    (tmp_path / "ne/LC_MESSAGES/three.mo").write_bytes(b"PK not a catalogue")
    dataset = open_set("gettext", tmp_path)
    assert "Close" in dataset.parts["train"].targets
    assert "three.mo is no catalogue of messages" in dataset.notes[1]
    assert "two.mo is broken, or not in UTF-8: a text ends behind the file's" in dataset.notes[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"has no catalogue \(.mo\): put there catalogues of programs"),
        ({"source": "../x"}, "'../x' is no language's code"),
        ({"source": "de", "target": "ne"}, "catalogues go from or to English"),
    ],
)
def test_what_is_not_there_is_told_in_one_line(tmp_path, options, message):
    with pytest.raises(ClearheadError, match=message):
        open_set("gettext", tmp_path, **options)
