"""The user's own texts: tables, running text, parallel texts; what is recognised, held out, left out and refused."""

import json
from pathlib import Path

import pytest
import torch

from clearhead.data.kinds import Dataset, Labelled, Parallel, Question, Questions, Running
from clearhead.data.own_tables import own_table
from clearhead.data.own_texts import own_parallel, own_text
from clearhead.data.text_splits import with_validation
from clearhead.errors import ClearheadError


def written(file: Path, content: str | bytes) -> Path:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def refused(reader, *args: object, **options: object) -> str:
    with pytest.raises(ClearheadError) as caught:
        reader(*args, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def rows(count: int = 30, label=lambda i: ("bad", "good", "so-so")[i % 3]) -> list[tuple[str, str]]:
    return [(f"text number {i}", str(label(i))) for i in range(count)]


def table(pairs: list[tuple[str, str]], heading: str = "text,label", between: str = ",") -> str:
    return "".join(f"{line}\n" for line in [heading.replace(",", between), *(between.join(pair) for pair in pairs)])


def labelled(dataset) -> dict[str, str]:
    """Every text with the name of its class, all parts together."""
    return {
        text: dataset.classes[label]
        for part in dataset.parts.values()
        for text, label in zip(part.texts, part.labels.tolist(), strict=True)
    }


@pytest.mark.parametrize("kind", ["csv", "semicolons", "tsv", "jsonl"])
def test_a_table_is_read_in_every_form_and_says_what_was_recognised(kind, tmp_path):
    content = {
        "csv": table(rows()),
        "semicolons": table(rows(), between=";"),
        "tsv": table(rows(), between="\t"),
        "jsonl": "".join(json.dumps({"id": i, "text": a, "label": b}) + "\n" for i, (a, b) in enumerate(rows())),
    }[kind]
    dataset = own_table(written(tmp_path / f"mine.{kind.replace('semicolons', 'csv')}", content))
    assert (dataset.name, dataset.kind, dataset.classes) == ("mine", "labelled", ("bad", "good", "so-so"))
    assert labelled(dataset) == dict(rows())
    assert dataset.notes[0] == "recognised: text 'text', label 'label' (3 classes ('bad', 'good', 'so-so'))"


def test_a_tenth_of_each_class_is_held_out_the_same_every_time(tmp_path):
    file = written(tmp_path / "a.csv", table(rows(300, lambda i: "rare" if i % 10 == 0 else "common")))
    dataset = own_table(file)
    counts = {part: torch.bincount(rows.labels).tolist() for part, rows in dataset.parts.items()}
    assert counts == {"train": [243, 27], "valid": [27, 3]}
    assert dataset.notes[-1] == "10% of train held out as valid by text and class: 270 and 30"
    again = own_table(file)
    assert list(again.parts["valid"].texts) == list(dataset.parts["valid"].texts)
    assert set(own_table(file, seed=1).parts["valid"].texts) != set(dataset.parts["valid"].texts)
    assert len(own_table(file, share=0.5).parts["valid"]) == 150


def test_equal_texts_stay_on_one_side_and_a_lone_class_stays_in_train(tmp_path):
    pairs = [(f"same {i % 20}", "a") for i in range(100)] + [("once", "b")]
    dataset = own_table(written(tmp_path / "a.csv", table(pairs)))
    assert not set(dataset.parts["train"].texts) & set(dataset.parts["valid"].texts)
    assert (
        "once" in dataset.parts["train"].texts
        and "1 classes with one text alone, which stays in train: 'b'" in dataset.notes[1]
    )


def test_given_parts_are_taken_as_they_are_and_unknown_classes_in_them_are_bad_rows(tmp_path):
    train = written(tmp_path / "train.csv", table(rows()))
    valid = written(tmp_path / "valid.csv", table([*rows(5), ("new", "strange")]))
    dataset = own_table(train, valid, valid)
    assert {part: len(rows) for part, rows in dataset.parts.items()} == {"train": 30, "valid": 5, "test": 5}
    assert "1 of 6 rows left out: line 7: the label 'strange' is no class of train" in dataset.notes[1]
    other = written(tmp_path / "other.csv", "text,lable\na,b\n")
    assert "has no column 'label': it has 'text', 'lable'; did you mean 'lable'?" in refused(own_table, train, other)


@pytest.mark.parametrize(
    ("label", "kind", "classes"),
    [
        (lambda i: i % 5, "labelled", ("0", "1", "2", "3", "4")),
        (lambda i: f"{i % 3}.0" if i % 2 else str(i % 3), "labelled", ("0", "1", "2")),
        (lambda i: -1 if i % 2 else 10, "labelled", ("-1", "10")),
        (lambda i: i, "scored", ()),
        (lambda i: i / 4, "scored", ()),
    ],
)
def test_numbers_are_scores_unless_they_are_few_whole_ones(label, kind, classes, tmp_path):
    dataset = own_table(written(tmp_path / "a.csv", table(rows(60, label))))
    assert (dataset.kind, dataset.classes) == (kind, classes)
    assert dataset.parts["train"].labels.dtype == (torch.int64 if classes else torch.float32)
    if not classes:
        assert dataset.notes[0].endswith("(scores)") and "held out as valid by text:" in dataset.notes[-1]
        held = dict(zip(dataset.parts["valid"].texts, dataset.parts["valid"].labels.tolist(), strict=True))
        assert all(value == pytest.approx(label(int(text.split()[-1]))) for text, value in held.items())


def test_scores_can_be_asked_for_or_ruled_out(tmp_path):
    file = written(tmp_path / "a.csv", table(rows(60, lambda i: i % 5)))
    assert own_table(file, scores=True).kind == "scored"
    halves = written(tmp_path / "b.csv", table(rows(60, lambda i: i % 3 / 2)))
    assert own_table(halves, scores=False).classes == ("0", "0.5", "1")
    words = written(tmp_path / "c.csv", table([*rows(60, lambda i: i / 7), ("x", "none")]))
    assert "line 62: the label 'none' is no number" in own_table(words, scores=True).notes[1]


def test_columns_are_recognised_by_name_in_any_case_or_by_what_is_left(tmp_path):
    file = written(
        tmp_path / "a.tsv", table([(str(i), f"a {i}", "xy"[i % 2]) for i in range(9)], "ID,Review,Sentiment", "\t")
    )
    assert "text 'Review', label 'Sentiment'" in own_table(file).notes[0]
    file = written(tmp_path / "b.tsv", table(rows(), "phrase,label", "\t"))
    assert "text 'phrase', label 'label'" in own_table(file).notes[0]
    pairs = "sentence1\tsentence2\tlabel\n" + "".join(f"a{i}\tb{i}\t{i % 2}\n" for i in range(20))
    dataset = own_table(written(tmp_path / "c.tsv", pairs))
    assert "second text 'sentence2'" in dataset.notes[0]
    train = dataset.parts["train"]
    assert [text[1:] for text in train.texts] == [second[1:] for second in train.seconds or ()]


def test_columns_can_be_given_by_name_or_by_number_where_there_is_no_heading(tmp_path):
    file = written(tmp_path / "a.tsv", table([(f"t{i}", "n", str(i % 2)) for i in range(20)], "what,note,answer", "\t"))
    assert "which column of" in refused(own_table, file)
    assert len(own_table(file, text="what", label="answer").parts["train"]) == 18
    assert own_table(file, text="what", label="answer", second="note").parts["train"].seconds is not None
    bare = written(tmp_path / "b.tsv", "".join(f"{i % 2}\tt{i}\n" for i in range(20)))
    assert labelled(own_table(bare, text="2", label="1")) == {f"t{i}": str(i % 2) for i in range(20)}


def test_quotes_are_quotes_in_csv_and_letters_in_tsv(tmp_path):
    quoted = 'text,label\n"a, ""b""\nc",x\n' + "d,x\ne,y\nf,y\n"
    dataset = own_table(written(tmp_path / "a.csv", quoted), share=0.5)
    assert 'a, "b"\nc' in [text for part in dataset.parts.values() for text in part.texts]
    plain = 'text\tlabel\n"a\tx\nb\u2028"\ty\n' + "c\tx\nd\ty\n"
    texts = [text for part in own_table(written(tmp_path / "a.tsv", plain)).parts.values() for text in part.texts]
    assert sorted(texts) == ['"a', 'b\u2028"', "c", "d"]


def test_bad_rows_of_a_table_are_left_out_and_named(tmp_path):
    content = table(rows()) + "alone\n,good\nno label, \n\n"
    dataset = own_table(written(tmp_path / "a.csv", content))
    assert (
        "4 of 34 rows left out: line 32: 1 fields, not 2; line 33: no text; line 34: no label; line 35: 0 fields, not 2"
        in (dataset.notes[1])
    )
    lines = "".join(json.dumps({"text": a, "label": b}) + "\n" for a, b in rows())
    broken = (
        lines + '{"text": "a"\n[1]\n{"text": null, "label": "good"}\n{"label": "good"}\n{"text": "a", "label": ""}\n'
    )
    notes = own_table(written(tmp_path / "a.jsonl", broken)).notes
    assert "5 of 35 rows left out: line 31: it is not valid JSON" in notes[1]
    assert (
        "line 32: it must hold a JSON object, not a list; line 33: no text; line 34: no text; line 35: no label"
        in notes[1]
    )


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.xlsx", "x", {}, "is no table by its name: it should end in .csv, .tsv, .jsonl, .ndjson"),
        ("a.csv", "", {}, "is empty"),
        ("a.csv", "text,label\n", {}, "holds no label: there is nothing to learn"),
        ("a.csv", "text,label\na,x\nb,x\n", {}, "column 'label' holds one class alone: there is nothing to learn"),
        ("a.csv", "text,text\na,x\n", {}, "names a column twice: 'text', 'text'"),
        ("a.csv", 'text,label\n"a" b,x\n', {}, "line 2 is no row of a table: ',' expected after '\"'"),
        ("a.csv", "a,b,c\n1,2,3\n", {}, "which column of"),
        ("a.csv", "text,label\na,x\nb\nc\nd,y\ne\n", {}, "has 3 bad rows and 2 good ones (line 3: 1 fields, not 2)"),
        (
            "a.csv",
            "text,label\na,x\n",
            {"text": "txt"},
            "has no column 'txt': it has 'text', 'label'; did you mean 'text'?",
        ),
        ("a.csv", "text,label\na,x\n", {"text": "label"}, "one column can't be two of 'label', 'label'"),
        ("a.csv", table(rows(60, lambda i: f"l{i}")), {}, "has 60 different labels in 60 rows: these are no classes"),
        ("a.csv", table(rows(4, lambda i: "xy"[i % 2])), {"share": 1.5}, "must lie between 0 and 1, not 1.5"),
        ("a.csv", "text,label\na,1.5\n", {}, "is too small to hold 10% of it out"),
        ("a.jsonl", "nonsense\n", {}, "holds no JSON object (line 1: it is not valid JSON"),
        ("a.jsonl", "", {}, "holds no JSON object"),
        ("a.csv", b"\xff\xfe", {}, "is not UTF-8 text (byte 0)"),
    ],
)
def test_a_table_that_can_not_be_understood_is_refused_in_one_line(name, content, options, message, tmp_path):
    assert message in refused(own_table, written(tmp_path / name, content), **options)


def test_the_end_of_a_text_is_held_out_after_a_whole_line(tmp_path):
    text = "".join(f"line {i}\n" for i in range(100))
    dataset = own_text(written(tmp_path / "tale.txt", text))
    (train,), (valid,) = dataset.parts["train"].documents, dataset.parts["valid"].documents
    assert train + valid == text and train.endswith("\n") and 0.08 < len(valid) / len(text) < 0.12
    assert dataset.name == "tale" and dataset.notes[0] == "recognised: running text, files: train of 1"


def test_a_folder_is_read_in_order_and_many_documents_are_held_out_whole(tmp_path):
    for i in range(40):
        written(tmp_path / f"{i:02}.txt", f"document {i}\n")
    written(tmp_path / "40.txt", " \n")
    written(tmp_path / "notes.md", "not a text")
    dataset = own_text(tmp_path)
    assert len(dataset.parts["valid"]) == 4 and len(dataset.parts["train"]) == 36
    numbers = [int(text.split()[1]) for text in dataset.parts["train"].documents]
    assert numbers == sorted(numbers)
    assert "1 of 41 files left out: 40.txt: empty" in dataset.notes[1] and "by document" in dataset.notes[2]
    given = own_text([tmp_path / "00.txt", tmp_path / "01.txt"], valid=tmp_path / "02.txt")
    assert list(given.parts["valid"].documents) == ["document 2\n"] and len(given.parts["train"]) == 2


def test_a_text_that_is_none_is_refused(tmp_path):
    assert "has no .txt file in it" in refused(own_text, tmp_path)
    assert "holds no text" in refused(own_text, written(tmp_path / "a.txt", "\n"))
    assert "can't be read: No such file" in refused(own_text, tmp_path / "none.txt")
    assert refused(own_text, []) == "no text file is given"


def test_two_parallel_texts_are_read_and_a_source_is_on_one_side_alone(tmp_path):
    english = written(tmp_path / "all.en", "".join(f"number {i % 50}\n" for i in range(100)) + "\n")
    nepali = written(tmp_path / "all.ne.txt", "".join(f"संख्या {i}\n" for i in range(100)) + "x\n")
    dataset = own_parallel(english, nepali)
    assert dataset.languages == ("en", "ne") and dataset.kind == "parallel"
    assert not set(dataset.parts["train"].sources) & set(dataset.parts["valid"].sources)
    assert len(dataset.parts["valid"]) == 10 and "line 101: a side is empty" in dataset.notes[1]
    for part in dataset.parts.values():
        assert all(
            int(source.split()[1]) == int(target.split()[1]) % 50
            for source, target in zip(part.sources, part.targets, strict=True)
        )
    assert own_parallel(english, nepali, valid=(english, nepali)).parts["valid"].sources[0] == "number 0"


def test_parallel_texts_of_different_lengths_are_refused_with_both_counts(tmp_path):
    first, second = written(tmp_path / "a.txt", "1\n2\n3\n"), written(tmp_path / "b.txt", "1\n2\n")
    message = refused(own_parallel, first, second)
    assert f"{first} has 3 lines and {second} has 2: they must match line by line" == message


def test_a_set_with_a_valid_part_or_no_train_part_is_left_as_it_is():
    part = Running(["text\n"])
    for parts in ({"train": part, "valid": part}, {"test": part}):
        dataset = Dataset("x", "running", parts)
        assert with_validation(dataset) is dataset


def test_questions_are_held_out_by_article():
    asked = [Question(str(i), f"article {i % 10}", "q", "p", (("p", 0),)) for i in range(100)]
    dataset = with_validation(Dataset("x", "questions", {"train": Questions(asked)}))
    assert len({row.article for row in dataset.parts["valid"].rows}) == 1 and len(dataset.parts["valid"]) == 10


def test_other_parts_stay_where_a_part_is_held_out():
    scored = Labelled([f"t{i}" for i in range(20)], torch.arange(20).float())
    test = Parallel(["a"], ["b"])
    dataset = with_validation(Dataset("x", "scored", {"train": scored, "test": test}), share=0.25)
    assert list(dataset.parts) == ["train", "valid", "test"] and dataset.parts["test"] is test
    assert len(dataset.parts["valid"]) == 5
