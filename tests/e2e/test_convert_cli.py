"""`clearhead convert` and `clearhead export` as a person uses them: what they print, and how they fail."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import clearhead
from clearhead.cli import main
from tests.minilm import tiny
from tests.support import equal, peer

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch, capsys) -> Run:
    """Run a command in this process: (exit code, stdout, stderr)."""

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["clearhead", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err

    return call


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> Path:
    return tiny(tmp_path_factory.mktemp("bert") / "tiny")


def test_a_folder_goes_there_and_back_and_still_embeds_the_same(run: Run, bert: Path, tmp_path: Path):
    code, out, err = run("convert", bert, tmp_path / "own", "--to", "clearhead")
    assert (code, err) == (0, "")
    assert "clearhead-bert" in out and "float32" in out and "tokenizer.json" in out
    code, out, err = run("convert", tmp_path / "own", tmp_path / "back", "--json")
    assert (code, err) == (0, "")
    about = json.loads(out)
    assert (about["form"], about["folder"], about["notes"]) == ("bert", str(tmp_path / "back"), [])
    assert "tokenizer.json" in about["copied"]
    before, after = (
        clearhead.embed(clearhead.load(place, device="cpu"), ["the cat"]) for place in (bert, tmp_path / "back")
    )
    assert torch.equal(before, after)


def test_transformers_loads_what_was_converted(run: Run, bert: Path, tmp_path: Path):
    assert run("convert", bert, tmp_path / "hf")[0] == 0
    [name] = json.loads((tmp_path / "hf" / "config.json").read_text())["architectures"]
    theirs, report = getattr(peer("transformers"), name).from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert {what: list(names) for what, names in report.items() if names} == {}
    ids = torch.tensor([[2, 7, 8, 3]])
    with torch.no_grad():
        hidden, _ = clearhead.load(bert, device="cpu")(ids)
        assert equal(theirs.eval()(ids).last_hidden_state, hidden)


def test_bad_input_is_one_line_and_exit_code_2(run: Run, bert: Path, tmp_path: Path):
    np.savez(tmp_path / "w.npz", cls=np.zeros(3))
    (tmp_path / "old").mkdir()
    clearhead.save(clearhead.create("deck", device="cpu"), tmp_path / "deck")
    for words, said in [
        (("convert", tmp_path / "nowhere", tmp_path / "new"), "there is no folder or file"),
        (("convert", tmp_path / "w.npz", tmp_path / "new"), "name its architecture"),
        (("convert", tmp_path / "w.npz", tmp_path / "new", "--arch", "vit-b16"), "w.npz"),
        (("convert", bert, tmp_path / "old"), "exists"),
        (("convert", bert, tmp_path / "new", "--to", "keras"), "no form 'keras'"),
        (("convert", tmp_path / "deck", tmp_path / "new"), "can't say"),
        (("convert", bert, bert, "--force"), "holds what is to be converted"),
        (("export", "gpt-nano", "-o", tmp_path / "new.pt2"), "without trained weights: give a folder, or --random"),
        (("export", bert, "-o", tmp_path / "new.pt2", "--random"), "--random goes with a model's name"),
        (("export", bert, "-o", tmp_path / "new.txt"), "*.onnx or *.pt2"),
        (("export", tmp_path / "nowhere", "-o", tmp_path / "new.pt2"), "there is no folder"),
    ]:
        code, out, err = run(*words)
        assert (code, out, err.count("\n")) == (2, "", 1), words
        assert said in err
    assert {path.name for path in tmp_path.iterdir()} == {"w.npz", "old", "deck"}


def test_force_replaces_an_empty_or_an_old_folder(run: Run, bert: Path, tmp_path: Path):
    (tmp_path / "new").mkdir()
    for _ in range(2):
        assert run("convert", bert, tmp_path / "new", "--force")[0] == 0
    assert (tmp_path / "new" / "tokenizer.json").read_bytes() == (bert / "tokenizer.json").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_random_weights_are_exported_only_when_asked_for_and_are_said(run: Run, tmp_path: Path):
    code, out, _ = run("export", "gpt-nano", "-o", tmp_path / "nano.pt2", "--random", "--seed", "3")
    assert code == 0
    assert "gpt-nano (random weights, seed 3)" in out
    assert "takes ids (batch x length); gives logits" in out
    assert "largest difference from the model" in out
    again = torch.export.load(tmp_path / "nano.pt2").module()
    ids = torch.tensor([[0, 1, 2, 1]])
    with torch.no_grad():
        assert equal(again(ids), clearhead.create("gpt-nano", seed=3, device="cpu")(ids))


def test_an_onnx_export_of_a_folder_says_its_difference_in_json(run: Run, bert: Path, tmp_path: Path):
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason=f"exports to ONNX, and {name} is not installed")
    code, out, _ = run("export", bert, "-o", tmp_path / "bert.onnx", "--json")
    about = json.loads(out)
    assert (code, about["random"], about["int8"]) == (0, False, False)
    assert list(about["inputs"]) == ["ids", "lengths", "segments"]
    assert 0 <= about["difference"] <= 1e-5 * max(1.0, about["largest"])
