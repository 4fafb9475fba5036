"""`clearhead fill`, `classify` and `answer`: what they read, what they print, and what they refuse."""

import importlib
import io
import json
import sys

import numpy as np
import pytest
import torch
import typer

import clearhead
from clearhead.cli import answer, classify, fill
from clearhead.models import create
from clearhead.runs.labels import name_classes
from clearhead.tasks.answer import answer as best_spans
from clearhead.tasks.fill import fill as filled
from tests.minilm import tiny

module = importlib.import_module("clearhead.cli.app")


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("answering")
    judge = clearhead.load(tiny(place / "judge", task="classify", num_classes=2), device="cpu")
    name_classes(judge, ["against", "for"])
    clearhead.save(judge, place / "judge")
    vit = create("vit-ti16", image=16, patch=8, width=24, layers=1, heads=3, num_classes=7, seed=0, device="cpu")
    with torch.no_grad():
        vit.get_parameter("output.weight").normal_()
    name_classes(vit, [f"animal {number}" for number in range(7)])
    made = {
        "judge": place / "judge",
        "vit": clearhead.save(vit, place / "vit"),
        "fill": tiny(place / "fill", task="fill"),
        "reader": tiny(place / "reader", task="answer", context=24),
        "measure": tiny(place / "measure", task="classify", num_classes=1),
        "bert": tiny(place / "bert"),
    }
    return {name: str(folder) for name, folder in made.items()}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    from PIL import Image

    place, random = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for name in ("a.png", "b.jpg"):
        Image.fromarray(random.integers(0, 256, (20, 30, 3), np.uint8)).save(place / name)
    (place / "notes.txt").write_text("no picture")
    return place


@pytest.fixture
def run(monkeypatch, capsys, folders):
    """Run these commands as the command line runs them: (exit code, stdout, stderr). `@name` is a folder."""
    app = typer.Typer()
    for name, command in (("fill", fill.command), ("classify", classify.command), ("answer", answer.command)):
        app.command(name)(command)

    def call(*words: object, stdin: str | bytes = "") -> tuple[int, str, str]:
        given = stdin if isinstance(stdin, bytes) else stdin.encode()
        named = [folders[str(word)[1:]] if str(word).startswith("@") else str(word) for word in words]
        with monkeypatch.context() as patch:
            patch.setattr(module, "app", app)
            patch.setattr(sys, "argv", ["clearhead", *named])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
            with pytest.raises(SystemExit) as stopped:
                module.main()
        printed = capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err

    return call


def test_fill_shows_the_words_of_every_blank_and_the_text_with_the_best(run, folders):
    code, out, err = run("fill", "@fill", "the ___ sat on the [MASK]", "--top", "3")
    expected = filled(clearhead.load(folders["fill"], device="cpu"), "the ___ sat on the ___", 3)
    lines = out.splitlines()
    assert (code, err, len(lines)) == (0, "", 8) and lines[0] == "the ___ sat on the [MASK]"
    assert lines[1].split() == ["blank", "1", f"{expected.blanks[0][0].probability:.4f}", expected.blanks[0][0].word]
    assert lines[4].startswith("  blank 2") and lines[-1] == f"  {expected.text}"


def test_fill_reads_stdin_and_gives_json(run):
    for words in ([], ["-"]):
        code, out, _ = run("fill", "@fill", *words, "--json", "-k", "2", stdin="the ___\n\n___ tea ___\n")
        said = json.loads(out)
        assert code == 0 and [text["line"] for text in said["texts"]] == [1, 3]
        assert [len(text["blanks"]) for text in said["texts"]] == [1, 2]
        assert set(said["texts"][0]["blanks"][0][1]) == {"word", "tokens", "probability"}


def test_fill_one_by_one_differs_where_the_words_depend_on_each_other(run):
    together, one = (
        json.loads(run("fill", "@fill", "___ ___ the", "--json", *more)[1]) for more in ([], ["--one-by-one"])
    )
    assert together["texts"][0]["blanks"] != one["texts"][0]["blanks"]


def test_classify_names_the_class_of_a_text(run):
    code, out, err = run("classify", "@judge", "-t", "the cat")
    assert (code, err) == (0, "") and len(out.splitlines()) == 2
    assert {line.split()[1] for line in out.splitlines()} == {"for", "against"}
    assert sum(float(line.split()[0]) for line in out.splitlines()) == pytest.approx(1, abs=1e-3)


def test_classify_reads_lines_and_pairs_of_texts(run, tmp_path):
    (tmp_path / "lines.txt").write_text("the cat\n\na dog\n")
    code, out, _ = run("classify", "@judge", tmp_path / "lines.txt", "-t", "tea")
    assert code == 0 and [line.split("  ")[-1] for line in out.splitlines()] == ["the cat", "a dog", "tea"]
    code, out, _ = run("classify", "@judge", "--pairs", "--json", "-k", "2", stdin="the cat\ta dog\ntea\tmoney\n")
    said = json.loads(out)["inputs"]
    assert code == 0 and len(said) == 2 and len(said[0]["classes"]) == 2 and "value" not in said[0]


def test_classify_measures_with_one_class(run):
    code, out, _ = run("classify", "@measure", "-t", "the cat")
    assert code == 0 and out.split("  ")[-1] == "the cat\n" and float(out.split()[0])
    assert set(json.loads(run("classify", "@measure", "-t", "tea", "--json")[1])["inputs"][0]) == {"input", "value"}


def test_classify_reads_pictures_folders_of_them_and_names_from_stdin(run, photos):
    one = run("classify", "@vit", photos / "a.png")
    assert one[0] == 0 and len(one[1].splitlines()) == 5 and one[1].splitlines()[0].endswith("a.png")
    by_folder = run("classify", "@vit", photos)
    assert by_folder == run("classify", "@vit", photos / "a.png", photos / "b.jpg")
    assert by_folder == run("classify", "@vit", stdin=f"{photos / 'a.png'}\n{photos / 'b.jpg'}\n")
    assert [line.split()[1] for line in by_folder[1].splitlines()] == ["animal", "animal"]


def test_classify_names_broken_pictures_and_does_the_others(run, photos):
    code, out, err = run("classify", "@vit", photos / "notes.txt", photos / "a.png", "--json")
    said = json.loads(out)["inputs"]
    assert code == 2 and err.count("\n") == 1 and "notes.txt" in err
    assert "problem" in said[0] and len(said[1]["classes"]) == 1
    code, out, _ = run("classify", "@vit", photos / "notes.txt", photos / "a.png")
    assert code == 2 and "can't be read" in out.splitlines()[0]


def test_answer_gives_the_stretch_and_what_is_around_it(run, folders, tmp_path):
    passage = "the cat sat on the bank of the river , she put money in the bank ."
    (tmp_path / "passage.txt").write_text(passage)
    best = best_spans(clearhead.load(folders["reader"], device="cpu"), "the dog", passage, 2)
    for words, stdin in ((["-p", tmp_path / "passage.txt"], ""), (["-p", "-"], passage), ([], passage)):
        code, out, err = run("answer", "@reader", "-q", "the dog", "--top", "2", *words, stdin=stdin)
        assert (code, err) == (0, "") and len(out.splitlines()) == 2
        for line, span in zip(out.splitlines(), best, strict=True):
            assert line.startswith(f"{span.probability:.4f}  {span.text}") and f"[{span.text}]" in line


def test_answer_takes_several_questions_and_gives_json(run):
    passage = "the cat sat on the bank of the river , she put money in the bank ."
    code, out, _ = run("answer", "@reader", "-q", "the dog", "-q", "money", "--json", "-k", "3", stdin=passage)
    said = json.loads(out)["questions"]
    assert code == 0 and [one["question"] for one in said] == ["the dog", "money"]
    assert all(len(one["answers"]) == 3 for one in said)
    assert all(span["text"] == passage[span["start"] : span["end"]] for one in said for span in one["answers"])
    code, out, _ = run("answer", "@reader", "-q", "the dog", "-q", "money", stdin=passage)
    assert code == 0 and out.splitlines()[0] == "the dog" and out.splitlines()[2] == "money"


@pytest.mark.parametrize(
    ("words", "stdin", "message"),
    [
        (["fill", "bert-base", "a ___"], "", "bert-base is an architecture without trained weights"),
        (["fill", "@bert", "a ___"], "", "no masked words"),
        (["fill", "@vit", "a ___"], "", "not by a ViT"),
        (["fill", "@fill", "nothing missing"], "", "the text has no blank"),
        (["fill", "@fill"], "the ___\nno blank\n", "line 2: the text has no blank"),
        (["fill", "@fill"], b"\xff ___", "stdin is not UTF-8"),
        (["fill", "@fill"], "", "there is no text"),
        (["fill", "no such folder", "___"], "", "no folder, file or model"),
        (["fill", "@fill", "a ___", "--top", "0"], "", "at least one word"),
        (["classify", "vit-b16", "x.png"], "", "without trained weights"),
        (["classify", "@fill", "-t", "a"], "", "no classes for a text"),
        (["classify", "@vit", "-t", "a"], "", "a ViT classifies pictures"),
        (["classify", "@judge", "--pairs", "-t", "no tab"], "", "text 1 holds 1 fields"),
        (["classify", "@vit"], "", "there is no text"),
        (["classify", "@judge", "none.txt"], "", "none.txt can't be read"),
        (["answer", "@reader", "-q", "a", "-p", "none.txt"], "", "none.txt can't be read"),
        (["answer", "@reader", "-q", "a"], "", "passage is empty"),
        (["answer", "@reader"], "tea", "--question"),
        (["answer", "@fill", "-q", "a"], "tea", "no spans of a passage"),
        (["answer", "bert-base", "-q", "a"], "tea", "without trained weights"),
        (["answer", "@reader", "-q", "a", "--overlap", "99"], "tea", "can share"),
    ],
)
def test_mistakes_are_told_in_one_line(run, words, stdin, message):
    code, out, err = run(*words, stdin=stdin)
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1 and err.startswith("clearhead: ")


def test_an_empty_folder_has_no_picture_in_it(run, tmp_path):
    code, _, err = run("classify", "@vit", tmp_path)
    assert code == 2 and "has no picture in it" in err


@pytest.mark.parametrize("command", ["fill", "classify", "answer"])
def test_the_help_has_an_example(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0 and f"clearhead {command} path/to/" in " ".join(out.split())
