"""The GPU's speed table at toy size on the CPU: every row measures all its contestants, and writers write the same."""

import json
from collections.abc import Iterator

import pytest
import torch

from benchmarks import gpu, gpu_writing
from clearhead.errors import ClearheadError
from tests.support import peer

NEEDS = {"vit-train": "timm", "vit-infer": "timm", "gpt-train": "transformers", "gpt-write-1": "transformers"}
NEEDS |= {"gpt-write-64": "transformers", "translate": "transformers"}


@pytest.fixture(autouse=True)
def hardly_compiled(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """One row is traced, the others are not even that; what the script sets for all of torch is set back."""
    monkeypatch.setattr(gpu, "QUICK", gpu.replace(gpu.QUICK, backend="eager"))
    if "[gpt-train]" not in request.node.name:
        monkeypatch.setattr(torch, "compile", lambda model, **_: model)
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)


@pytest.mark.parametrize("row", gpu.ROWS)
def test_a_row_measures_ours_beside_its_peer(row, capsys):
    if row in NEEDS:
        peer(NEEDS[row])
    assert gpu.main(["--quick", "--rows", row, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    results = told["results"]
    assert [result["name"] for result in results] == [entry.name for entry in gpu.ROWS[row].entries]
    assert any(result["name"].startswith("clearhead") for result in results)
    for result in results:
        assert result["reason"] is None and result["ms"] > 0 and result["ratio"]["median"] > 0
        assert result["peak_gib"] == 0  # which a GPU alone can say
    if gpu.ROWS[row].judge is not None:
        assert [result["same_texts"] for result in results] == [1.0] * len(results)
        assert len({result["likelihood"] for result in results}) == 1


def test_a_judge_knows_a_text_that_went_wrong():
    peer("transformers")
    (given,) = gpu.ROWS["gpt-write-1"].inputs(gpu.QUICK, torch.float32)
    written = gpu_writing.their_writing(gpu_writing.their_gpt(gpu.QUICK), gpu.QUICK)(given)
    right, wrong = (gpu_writing.likelihood_of_writing(gpu.QUICK, given, text) for text in (written, written ^ 1))
    assert wrong < right - 1


def test_the_table_comes_last_and_a_file_has_the_figures(tmp_path, capsys):
    peer("transformers")
    assert gpu.main(["--quick", "--rows", "gpt-train", "--json", str(tmp_path / "figures.json")]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("row: contestant") and "gpt-train: nanoGPT's shape" in shown
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert [result["row"] for result in figures["results"]] == ["gpt-train"] * 4


def test_a_contestant_that_fails_is_named_and_the_others_go_on(monkeypatch, capsys):
    def broken(scale: gpu.Scale) -> None:
        raise RuntimeError("no memory\nfor this")

    row = gpu.ROWS["transformer-train"]
    entries = [gpu.replace(row.entries[0], make=broken), row.entries[1]]
    monkeypatch.setitem(gpu.ROWS, "transformer-train", gpu.replace(row, entries=entries))
    assert gpu.main(["--quick", "--rows", "transformer-train"]) == 1
    assert "failed: transformer-train: nn.Transformer: RuntimeError: no memory\n" in capsys.readouterr().out


def test_both_contestants_of_the_translation_step_have_as_many_weights():
    made = [entry.make(gpu.QUICK) for entry in gpu.ROWS["transformer-train"].entries]
    assert len({sum(weight.numel() for weight in model.parameters()) for model in made}) == 1


def test_mistakes_are_told_in_one_line(monkeypatch):
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    for words, message in (
        (["--rows", "vit-trian"], "there is no row 'vit-trian': choose from vit-train"),
        (["--rows", "vit-train"], "there is no CUDA device here: --quick"),
        (["--quick", "--graph"], "--graph needs a CUDA device"),
    ):
        with pytest.raises(ClearheadError, match=message):
            gpu.main(words)
