"""`clearhead embed` and `clearhead similar`: what they read, what they print, and what they refuse in one line."""

import io
import json
import sys

import numpy as np
import pytest
import torch

import clearhead
from clearhead.cli import main
from tests.minilm import tiny

LINES = "the cat sat on the dog .\n\nmoney in the bank\nrates rose\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return str(tiny(tmp_path_factory.mktemp("bert") / "tiny"))


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def call(*words: object, stdin: str | bytes = "") -> tuple[int, str, str]:
        given = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "argv", ["clearhead", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err

    return call


def vectors_of(folder: str, lines: list[str]) -> torch.Tensor:
    return clearhead.embed(clearhead.load(folder, device="cpu"), lines)


def test_stdin_becomes_a_json_line_for_each_line_blank_ones_too(run, folder):
    code, out, _ = run("embed", folder, "--device", "cpu", stdin=LINES)
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [row["text"] for row in rows] == LINES.splitlines()
    assert torch.equal(torch.tensor([row["vector"] for row in rows]), vectors_of(folder, LINES.splitlines()))


def test_files_stdin_and_texts_are_put_behind_each_other(run, folder, tmp_path):
    (tmp_path / "a.txt").write_text("the cat\n")
    (tmp_path / "b.txt").write_bytes("\ufeffthe dog\r\nthe river\r\n".encode())
    code, out, _ = run("embed", folder, tmp_path / "a.txt", "-", tmp_path / "b.txt", "-t", "tea", stdin="water")
    assert code == 0
    assert [json.loads(line)["text"] for line in out.splitlines()] == [
        "the cat",
        "water",
        "the dog",
        "the river",
        "tea",
    ]


def test_npy_and_jsonl_files_hold_the_vectors(run, folder, tmp_path):
    expected = vectors_of(folder, LINES.splitlines())
    for name in ("v.npy", "v.jsonl"):
        code, out, _ = run("embed", folder, "-o", tmp_path / name, stdin=LINES)
        assert (code, out) == (0, f"4 x 24 in {tmp_path / name}\n")
    assert np.array_equal(np.load(tmp_path / "v.npy"), expected.numpy())
    rows = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    assert torch.equal(torch.tensor([row["vector"] for row in rows]), expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v.jsonl", "v.npy"]


def test_json_is_one_object(run, folder, tmp_path):
    _, out, _ = run("embed", folder, "--json", "--no-normalise", "--pooling", "cls", "-t", "the cat")
    said = json.loads(out)
    assert (said["lines"], said["width"], said["pooling"], len(said["vectors"][0])) == (1, 24, "cls", 24)
    assert np.linalg.norm(said["vectors"][0]) > 1.01
    _, out, _ = run("embed", folder, "--json", "-t", "the cat", "-o", tmp_path / "v.npy")
    assert "vectors" not in json.loads(out) and json.loads(out)["out"] == str(tmp_path / "v.npy")


def test_a_bar_is_drawn_on_stderr_for_long_input_where_somebody_sees_it(run, folder, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    _, out, err = run("embed", folder, stdin="the cat\n" * 200)
    assert "lines" in err and "%" in err and len(out.splitlines()) == 200
    _, _, err = run("embed", folder, stdin="the cat\n" * 199)
    assert "%" not in err


WRONG = {
    "nothing": ([], b"", "stdin: there is no text in it"),
    "blank lines": ([], b"\n \n", "stdin: there is no text in it"),
    "not UTF-8": ([], b"caf\xe9", "stdin is not UTF-8 text (byte 3)"),
    "no such file": (["/nowhere/x.txt"], b"", "/nowhere/x.txt can't be read: No such file or directory"),
    "another kind of file": (["-o", "v.csv"], b"a", "-o takes a file named *.npy or *.jsonl, not v.csv"),
    "no such folder": (["-o", "/nowhere/v.npy"], b"a", "/nowhere/v.npy can't be written: there is no folder /nowhere"),
    "no such pooling": (["--pooling", "max"], b"a", "pooling must be one of mean, cls, not 'max'"),
    "no batch": (["--batch", "0"], b"a", "a batch holds at least one text, not 0"),
}


@pytest.mark.parametrize(("words", "stdin", "message"), WRONG.values(), ids=WRONG)
def test_a_mistake_ends_in_one_line_and_exit_code_2(run, folder, words, stdin, message):
    assert run("embed", folder, *words, stdin=stdin) == (2, "", f"clearhead: {message}\n")


@pytest.mark.parametrize("command", ["embed", "similar"])
def test_weights_are_not_made_up_for_an_answer(run, command):
    said = "clearhead: minilm-l6 is an architecture without trained weights: give the folder of a trained one\n"
    assert run(command, "minilm-l6", stdin="a\nb") == (2, "", said)


def test_an_output_that_can_not_be_written_leaves_no_half_file(run, folder, tmp_path):
    (tmp_path / "v.npy").mkdir()
    code, _, err = run("embed", folder, "-t", "tea", "-o", tmp_path / "v.npy")
    assert code == 2 and err == f"clearhead: {tmp_path / 'v.npy'} can't be written: Is a directory\n"
    assert list(tmp_path.iterdir()) == [tmp_path / "v.npy"]


def test_a_query_ranks_lines_by_their_numbers_in_the_file(run, folder):
    code, out, _ = run("similar", folder, "-q", "money in the bank", "--json", "-n", "2", stdin=LINES)
    said = json.loads(out)
    assert code == 0 and said["query"] == "money in the bank" and len(said["matches"]) == 2
    assert said["matches"][0]["lines"] == [{"line": 3, "text": "money in the bank"}]
    assert said["matches"][0]["score"] == pytest.approx(1, abs=1e-5) and said["matches"][1]["score"] < 0.999
    _, out, _ = run("similar", folder, "-q", "money in the bank", stdin=LINES)
    assert out.splitlines()[1].split() == ["1.0000", "3", "money", "in", "the", "bank"]
    assert len(out.splitlines()) == 4


def test_without_a_query_pairs_are_ranked(run, folder):
    _, out, _ = run("similar", folder, "--json", "-n", "1", stdin="the cat\nrates rose\nthe cat\n")
    (best,) = json.loads(out)["matches"]
    assert [line["line"] for line in best["lines"]] == [1, 3] and best["score"] == pytest.approx(1, abs=1e-5)
    _, out, _ = run("similar", folder, stdin="the cat\nrates rose\nthe cat\n")
    assert [line.split()[-2:] for line in out.splitlines()[1:3]] == [["the", "cat"]] * 2


def test_a_word_is_compared_with_itself_in_other_sentences(run, folder):
    sentences = ["-t", "the bank of the river", "-t", "money in the bank"]
    _, out, _ = run("similar", folder, "--word", "bank", "--json", *sentences)
    (pair,) = json.loads(out)["pairs"]
    assert pair["lines"] == [1, 2] and pair["static"] == pytest.approx(1, abs=1e-6) and pair["contextual"] < 0.999
    _, out, _ = run("similar", folder, "--word", "bank", *sentences)
    assert out.splitlines()[:2] == ["1: the bank of the river", "2: money in the bank"]
    assert out.splitlines()[-1].split() == ["1", "and", "2", "1.0000", f"{pair['contextual']:.4f}"]


def test_a_word_that_is_not_there_and_two_questions_at_once_are_refused(run, folder):
    _, out, err = run("similar", folder, "--word", "cat", "-t", "the dog", "-t", "the cat")
    assert (out, err) == ("", "clearhead: 'cat' does not occur in 'the dog'\n")
    _, _, err = run("similar", folder, "--word", "cat", "-q", "dog", "-t", "the cat")
    assert err == "clearhead: --word and --query ask two things: give one of them\n"


def test_help_has_an_example(run):
    for command in ("embed", "similar"):
        code, out, _ = run(command, "--help")
        assert code == 0 and f"clearhead {command} path/to/minilm" in " ".join(out.replace("│", " ").split())
