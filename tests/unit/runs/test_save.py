"""Saving: a folder that loads by itself, written aside first, with the parts that belong to it."""

import json
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead import ClearheadError
from clearhead.data import Preprocessor, word_tokenizer
from clearhead.runs import preprocessor

SMALL = {"vocab": 11, "context": 8, "width": 12, "layers": 2, "heads": 3}
IDS = torch.tensor([[3, 1, 4, 1, 5]])


def contents(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_folder_holds_a_config_and_weights_and_nothing_half_written(tmp_path: Path):
    model = clearhead.create("gpt2", device="cpu", **SMALL)
    assert clearhead.save(model, tmp_path / "deep" / "run") == tmp_path / "deep" / "run"
    assert contents(tmp_path / "deep" / "run") == {"config.json", "model.safetensors"}
    values = json.loads((tmp_path / "deep" / "run" / "config.json").read_text())
    assert values["model_type"] == "gpt2"
    assert values["clearhead"] == {"format_version": 1}


def test_what_their_form_can_not_say_is_written_in_ours(tmp_path: Path):
    clearhead.save(clearhead.create("deck", device="cpu"), tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    assert values["model_type"] == "clearhead-gpt"
    assert values["clearhead"]["config"]["positions"] == "sinusoidal"
    assert "architectures" not in values


def test_a_model_can_be_saved_over_the_file_it_was_loaded_from(tmp_path: Path):
    clearhead.save(clearhead.create("gpt2", seed=1, device="cpu", **SMALL), tmp_path)
    model = clearhead.load(tmp_path, device="cpu")
    before = model(IDS)
    with torch.no_grad():
        model.input.tokens.weight += 1
    changed = model(IDS)
    clearhead.save(model, tmp_path)
    assert torch.equal(model(IDS), changed)  # its weights are views of the old file's memory
    assert torch.equal(clearhead.load(tmp_path, device="cpu")(IDS), changed)
    assert not torch.equal(before, changed)
    assert contents(tmp_path) == {"config.json", "model.safetensors"}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_weights_are_saved_in_their_own_type(dtype: str, tmp_path: Path):
    model = clearhead.create("gpt2", device="cpu", dtype=dtype, **SMALL)
    clearhead.save(model, tmp_path)
    again = clearhead.load(tmp_path, device="cpu", dtype="auto")
    assert again.dtype == model.dtype
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in model.state_dict().items())


def test_parts_are_saved_beside_the_weights_and_found_again(tmp_path: Path):
    tokenizer = word_tokenizer("I love artificial intelligence")
    clearhead.save(clearhead.create("gpt2", device="cpu", **SMALL), tmp_path / "gpt", tokenizer=tokenizer)
    assert clearhead.tokenizer(tmp_path / "gpt").ids("artificial love") == [2, 1]
    made = Preprocessor(resize=(32, 32), mean=(0.1, 0.2, 0.3))
    clearhead.save(clearhead.create("vit-c10", device="cpu", layers=1), tmp_path / "vit", preprocessor=made)
    assert preprocessor(clearhead.load(tmp_path / "vit", device="cpu")) == made


def test_saving_does_not_change_where_weights_come_from_and_loading_says_it(tmp_path: Path):
    model = clearhead.create("gpt2", device="cpu", seed=1, **SMALL)
    clearhead.save(model, tmp_path)
    assert model.origin.random and model.origin.seed == 1
    assert str(clearhead.load(tmp_path, device="cpu").origin) == str(tmp_path)


def test_a_place_that_can_not_be_written_is_told_in_one_line(tmp_path: Path):
    model = clearhead.create("gpt2", device="cpu", **SMALL)
    (tmp_path / "file").write_text("in the way")
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(ClearheadError, match=r"could not be written: (File exists|Not a directory)"):
            clearhead.save(model, place)
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_folder_without_permission_is_told_in_one_line(tmp_path: Path, monkeypatch):
    model = clearhead.create("gpt2", device="cpu", **SMALL)

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", denied)
    with pytest.raises(ClearheadError, match="run could not be written: Permission denied"):
        clearhead.save(model, tmp_path / "run")


def test_a_model_without_numbers_can_not_be_saved_and_leaves_the_old_folder_whole(tmp_path: Path):
    clearhead.save(clearhead.create("gpt2", seed=1, device="cpu", **SMALL), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ClearheadError, match="can't be written as safetensors"):
        clearhead.save(clearhead.create("gpt2", device="meta", **SMALL), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
