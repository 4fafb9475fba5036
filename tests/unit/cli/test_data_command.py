"""`clearhead data list`, `check` and `tokenize`: what they say, what they write, and what they refuse."""

import gzip
import importlib
import io
import json
import sys

import pytest
import typer

from clearhead.cli import data
from clearhead.data import read_tokenizer, text_files
from clearhead.data.token_file import open_tokens

module = importlib.import_module("clearhead.cli.app")
TEXT = "the cat sat on the mat\nthe dog sat by the river, naïve as ever\n" * 20


@pytest.fixture
def run(monkeypatch, capsys):
    """Run `clearhead data ...` as the command line runs it: (exit code, stdout, stderr)."""
    app = typer.Typer()
    app.add_typer(data.app, name="data")
    monkeypatch.delenv("CLEARHEAD_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words: object, stdin: str = "", **environment: str) -> tuple[int, str, str]:
        with monkeypatch.context() as patch:
            patch.setattr(module, "app", app)
            patch.setattr(sys, "argv", ["clearhead", "data", *map(str, words)])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
            for name, value in environment.items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as stopped:
                module.main()
        printed = capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err

    return call


@pytest.fixture
def sets(tmp_path, monkeypatch):
    """A folder with one whole set, one with a missing and a changed file, and one that is not known by checksums."""
    facts = json.loads(json.dumps(text_files.all_facts()))
    content = {"one.txt": b"one", "two.txt": b"two", "three.txt": b"three"}
    import hashlib

    layout = {name: [len(raw), hashlib.sha256(raw).hexdigest()] for name, raw in content.items()}
    for name in ("cola", "rte"):
        facts[name] = facts[name] | {"folders": [name], "layouts": [layout]}
        (tmp_path / name).mkdir()
        for file, raw in content.items():
            (tmp_path / name / file).write_bytes(raw)
    (tmp_path / "rte" / "one.txt").unlink()
    (tmp_path / "rte" / "two.txt").write_bytes(b"TWO")
    (tmp_path / "flowers102").mkdir()
    (tmp_path / "flowers102" / "102flowers.tgz").write_bytes(b"flowers")
    monkeypatch.setattr(text_files, "all_facts", lambda: facts)
    return tmp_path


def test_every_set_is_listed_with_what_is_here_and_what_to_fetch(run, sets):
    code, out, err = run("list", "--data", sets)
    lines = {line.split()[0]: line for line in out.splitlines() if line[:1].strip()}
    assert (code, err) == (0, "") and {"name", "digits", "cola", "squad", "imagenet"} <= lines.keys()
    assert "built in" in lines["digits"] and " yes " in lines["cola"] and " yes " in lines["flowers102"]
    assert "2 of 3 files" in lines["rte"] and "fetch one.txt of" in lines["rte"]
    assert " missing " in lines["squad"] and "fetch SQuAD 1.1" in lines["squad"]


def test_the_list_is_json_too_and_the_variable_names_the_folder(run, sets):
    code, out, _ = run("list", "--json", CLEARHEAD_DATA=str(sets))
    said = {one["name"]: one for one in json.loads(out)}
    assert code == 0 and said["cola"]["present"] and said["cola"]["files"] == ["one.txt", "two.txt", "three.txt"]
    assert said["rte"]["missing"] == ["one.txt"] and not said["squad"]["present"] and said["digits"]["embedded"]
    nothing = {one["name"]: one for one in json.loads(run("list", "--json")[1])}
    assert nothing.keys() == text_files.all_facts().keys() and not nothing["cola"]["present"]


def test_check_names_what_is_wrong_and_missing(run, sets):
    assert run("check", "cola", "--data", sets) == (0, "cola: whole (3 files have their checksum)\n", "")
    code, out, err = run("check", "cola", "rte", "--data", sets)
    assert (code, err) == (1, "") and "rte: 1 wrong, 1 missing (1 files have their checksum)" in out
    assert "  two.txt: the right size, but another checksum\n  one.txt: missing\n" in out


def test_check_without_names_checks_what_is_here(run, sets):
    code, out, _ = run("check", "--data", sets, "--json")
    said = {one["name"]: one for one in json.loads(out)}
    assert code == 1 and said.keys() == {"cola", "rte", "flowers102"}
    assert said["cola"]["whole"] and not said["rte"]["whole"] and "no checksums" in said["flowers102"]["note"]


@pytest.mark.parametrize("kind", ["characters", "words", "bpe", "wordpiece"])
def test_a_tokenizer_is_trained_and_its_counts_are_said(run, tmp_path, kind):
    (tmp_path / "corpus.txt").write_text(TEXT)
    size = {"vocab": 300} if kind == "bpe" else {"vocab": 60}
    code, out, err = run(
        "tokenize", tmp_path / "corpus.txt", "--kind", kind, "--vocab", size["vocab"], "-o", tmp_path / "t"
    )
    tok = read_tokenizer(tmp_path / "t")
    tokens = len(tok.ids(TEXT, special=False))
    assert (code, err) == (0, "") and tok.size <= size["vocab"]
    assert f"1 documents, {len(TEXT.encode()):,} bytes, {len(TEXT.split())} words" in out
    assert f"{tokens:,} tokens of a vocabulary of {tok.size}" in out
    assert f"{tokens / len(TEXT.split()):.2f} tokens a word, {len(TEXT.encode()) / tokens:.2f} bytes a token" in out


def test_texts_become_a_file_of_tokens_with_a_tokenizer_that_there_is(run, tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("the cat")
    (tmp_path / "texts" / "b.txt").write_text("the dog")
    (tmp_path / "texts" / "empty.txt").write_text(" \n")
    run("tokenize", "-", "--kind", "words", "-o", tmp_path / "t", stdin=TEXT)
    tok = read_tokenizer(tmp_path / "t")
    code, out, err = run(
        "tokenize", tmp_path / "texts", "--tokenizer", tmp_path / "t", "-o", tmp_path / "x.tok", "--json"
    )
    said, tokens = json.loads(out), open_tokens(tmp_path / "x.tok", tok)
    assert code == 0 and "empty.txt is empty and was left out" in err
    end = tok.special["eos"]
    assert tokens.numbers.tolist() == [*tok.ids("the cat"), end, *tok.ids("the dog"), end]
    assert (said["documents"], said["tokens"], said["words"], said["unknown"]) == (2, 6, 4, 0)
    assert said["tokens_per_word"] == 1.5 and said["bytes_per_token"] == 14 / 6


def test_both_at_once_gzipped_texts_and_unknown_words_are_counted(run, tmp_path):
    (tmp_path / "corpus.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    code, out, _ = run(
        *("tokenize", tmp_path / "corpus.txt.gz", "--kind", "words", "--vocab", 8),
        *("-o", tmp_path / "t", "--tokens", tmp_path / "x.tok", "--json"),
    )
    said, tokens = json.loads(out), open_tokens(tmp_path / "x.tok", read_tokenizer(tmp_path / "t"))
    assert code == 0 and said["tokens"] == len(tokens) and said["vocabulary"] == 8
    assert said["unknown"] == tokens.numbers.tolist().count(1) > 0


def test_nothing_is_overwritten_without_force(run, tmp_path):
    words = ("tokenize", "-", "--kind", "words", "-o", tmp_path / "t", "--tokens", tmp_path / "x.tok")
    assert run(*words, stdin="one two")[0] == 0
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    code, out, err = run(*words, stdin="other words")
    assert (code, out) == (2, "") and "tokenizer.json exists" in err and err.count("\n") == 1
    code, _, err = run("tokenize", "-", "--tokenizer", tmp_path / "t", "-o", tmp_path / "x.tok", stdin="one")
    assert code == 2 and "x.tok exists" in err
    assert before == {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert run(*words, "--force", stdin="other words")[0] == 0
    assert "other" in read_tokenizer(tmp_path / "t").vocabulary


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", "cifr10"], "did you mean 'cifar10'"),
        (["check"], "no data set is here"),
        (["check", "vtab"], "VTAB is not supported"),
        (["check", "cola"], "CLEARHEAD_DATA"),
        (["list", "--data", "no such folder"], "there is no folder"),
        (["tokenize", "-", "-o", "x"], "either --kind"),
        (["tokenize", "-", "--kind", "bpe", "--tokenizer", "t", "-o", "x"], "either --kind"),
        (["tokenize", "-", "--kind", "bpe"], "with -o"),
        (["tokenize", "-", "--kind", "bpes", "-o", "x"], "did you mean 'bpe'"),
        (["tokenize", "none.txt", "--kind", "bpe", "-o", "x"], "none.txt can't be read"),
        (["tokenize", "-", "--tokenizer", "t", "--vocab", "9", "-o", "x"], "go with --kind"),
        (["tokenize", "-", "--tokenizer", "no such folder", "-o", "x"], "no such folder"),
        (["tokenize", "-", "--kind", "words", "--vocab", "3", "-o", "x"], "no room beside"),
    ],
)
def test_mistakes_are_told_in_one_line_and_write_nothing(run, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*words, stdin="a text")
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_empty_corpus_is_refused(run, tmp_path):
    code, _, err = run("tokenize", "-", "--kind", "bpe", "-o", tmp_path / "t", stdin=" \n")
    assert code == 2 and "there is no text in it" in err and not (tmp_path / "t").exists()


@pytest.mark.parametrize("command", ["list", "check", "tokenize"])
def test_the_help_has_an_example(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0 and f"clearhead data {command} " in " ".join(out.split())
