"""The readers of MRPC and STS-B: official layouts, missing files, and rows that are not what they should be."""

import logging
import os
from pathlib import Path

import pytest

from clearhead.data.pairs import Pair, mrpc, stsb
from clearhead.errors import ClearheadError
from tests.minilm import data_set

HEADING = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
READERS = {"mrpc": (mrpc, "mrpc/msr_paraphrase_test.txt", "test"), "stsb": (stsb, "stsb/sts-dev.csv", "dev")}


def written(root: Path, name: str, content: str | bytes) -> Path:
    file = root / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def refused(reader, *args: object) -> str:
    with pytest.raises(ClearheadError) as caught:
        reader(*args)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("reader", "part", "count", "mean"),
    [
        (mrpc, "train", 4076, 2753 / 4076),
        (mrpc, "test", 1725, 1147 / 1725),
        (stsb, "train", 5749, 2.701),
        (stsb, "dev", 1500, 2.364),
        (stsb, "test", 1379, 2.608),
    ],
)
def test_the_official_files_have_their_published_counts_and_no_bad_row(reader, part, count, mean):
    pairs = reader(part, data_set(reader.__name__))
    assert len(pairs) == count and pairs.bad == ()
    assert sum(pair.score for pair in pairs.rows) / count == pytest.approx(mean, abs=5e-4)


def test_mrpc_is_read_without_its_mark_and_heading_and_quotes_are_text(tmp_path):
    rows = '1\t10\t11\tHe said "no.\tHe said "no" again.\n0\t12\t13\tनमस्ते\tHi\n'
    pairs = mrpc("test", written(tmp_path, "mrpc/msr_paraphrase_test.txt", HEADING + rows))
    assert pairs.rows == (Pair('He said "no.', 'He said "no" again.', 1.0), Pair("नमस्ते", "Hi", 0.0))
    assert pairs.name == "MRPC test"


def test_windows_line_ends_are_no_part_of_a_sentence(tmp_path):
    rows = (HEADING + "1\t10\t11\ta b\tc d\n").replace("\n", "\r\n")
    assert mrpc("test", written(tmp_path, "mrpc/msr_paraphrase_test.txt", rows)).rows == (Pair("a b", "c d", 1.0),)


def test_stsb_may_carry_licences_behind_its_sentences(tmp_path):
    plain = "main-captions\tMSRvid\t2012test\t0000\t4.750\tA man.\tA person.\n"
    licensed = "main-forums\tanswers\t2016\t0008\t3\tOne. \tTwo. \tby A\tby B\n"
    pairs = stsb("dev", written(tmp_path, "stsb/sts-dev.csv", plain + licensed))
    assert pairs.rows == (Pair("A man.", "A person.", 4.75), Pair("One.", "Two.", 3.0))


def test_bad_rows_are_left_out_counted_and_named(tmp_path, caplog):
    good = "g\tf\t2012\t1\t2.5\ta\tb\n"
    bad = ["g\tf\t2012\t1\t2.5\ta\n", "g\tf\t2012\t1\tlots\ta\tb\n", "g\tf\t2012\t1\t5.1\ta\tb\n"]
    bad += ["g\tf\t2012\t1\tnan\ta\tb\n", "g\tf\t2012\t1\t1\t \tb\n", "\n"]
    with caplog.at_level(logging.WARNING, logger="clearhead"):
        pairs = stsb("dev", written(tmp_path, "stsb/sts-dev.csv", good + "".join(bad) + good))
    assert len(pairs) == 2
    assert pairs.bad == (
        "line 2: 6 fields, not 7",
        "line 3: the score is 'lots', not a number from 0 to 5",
        "line 4: the score is '5.1', not a number from 0 to 5",
        "line 5: the score is 'nan', not a number from 0 to 5",
        "line 6: a sentence is empty",
        "line 7: 1 fields, not 7",
    )
    assert "6 of 8 rows left out: line 2: 6 fields, not 7; line 3" in caplog.text


def test_a_bad_judgement_of_mrpc_is_named(tmp_path):
    rows = HEADING + "2\t1\t2\ta\tb\n1\t1\t2\ta\tb\n1\t1\t2\ta\tb\tc\n"
    pairs = mrpc("test", written(tmp_path, "mrpc/msr_paraphrase_test.txt", rows))
    assert pairs.bad == ("line 2: the judgement is '2', not 0 or 1", "line 4: 6 fields, not 5")


@pytest.mark.parametrize(("reader", "file", "part"), READERS.values(), ids=READERS)
def test_missing_data_says_what_to_fetch_and_where_to_put_it(reader, file, part, tmp_path):
    message = refused(reader, part, tmp_path)
    assert message.startswith(f"{tmp_path / file} is missing: fetch the ") and message.endswith("there")


@pytest.mark.parametrize(("reader", "file", "part"), READERS.values(), ids=READERS)
def test_without_a_folder_the_variable_is_named(reader, file, part, monkeypatch):
    monkeypatch.delenv("CLEARHEAD_DATA", raising=False)
    assert f"set CLEARHEAD_DATA to one that holds {file}" in refused(reader, part)


def test_the_folder_is_found_through_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("CLEARHEAD_DATA", os.fspath(tmp_path))
    written(tmp_path, "stsb/sts-train.csv", "g\tf\t2012\t1\t2.5\ta\tb")
    assert stsb("train").rows == (Pair("a", "b", 2.5),)


@pytest.mark.parametrize(("reader", "file", "part"), READERS.values(), ids=READERS)
def test_a_file_that_is_no_text_or_holds_no_pair_is_refused(reader, file, part, tmp_path):
    assert "is not UTF-8 text (byte 0)" in refused(reader, part, written(tmp_path, file, b"\xff\xfe\x00"))
    assert "holds no pair that can be read" in refused(reader, part, written(tmp_path, file, ""))
    message = refused(reader, part, written(tmp_path, file, "x\nx\nx\n"))
    assert "holds no pair that can be read (line " in message and "1 fields, not " in message


def test_an_unknown_part_is_refused_with_those_there_are():
    assert refused(mrpc, "dev") == "mrpc has no part 'dev': take train or test"
