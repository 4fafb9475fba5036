"""Exported files: they give the model's numbers for other batches and lengths, or they are not there."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead import ClearheadError
from clearhead.models import FAMILIES, Model
from clearhead.runs import export as module
from clearhead.runs.export import export
from tests.support import equal


def onnx() -> Any:
    for name in ("onnx", "onnxscript"):
        pytest.importorskip(name, reason=f"exports to ONNX, and {name} is not installed")
    return pytest.importorskip("onnxruntime", reason="runs ONNX files in onnxruntime, which is not installed")


def built(family: str, **changes: Any) -> Model:
    kind = FAMILIES[family]
    model = kind.model(kind.shrunken.with_changes(**changes))
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            mean = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            weight.copy_(mean + 0.3 * torch.randn(weight.shape, generator=random))
    return model.eval()


def batch(model: Model, rows: int, length: int) -> dict[str, Tensor]:
    """Fresh input by the names that the files use; a BERT's rows are padded."""
    c = model.config
    if model.family == "vit":
        return {"images": torch.randn(rows, c.channels, *c.image)}
    ids = {"ids": torch.randint(c.vocab, (rows, length))}
    if model.family == "gpt":
        return ids
    padded = {"lengths": torch.randint(1, length + 1, (rows,)), "segments": torch.randint(c.segments, (rows, length))}
    return ids | padded


def as_list(output: Any) -> list[Tensor]:
    return [output] if isinstance(output, Tensor) else list(output)


@pytest.mark.parametrize(
    ("family", "changes", "outputs"),
    [
        ("gpt", {}, ("logits",)),
        ("bert", {}, ("logits", "next_sentence")),
        ("bert", {"task": None}, ("hidden", "pooled")),
        ("vit", {}, ("logits",)),
        ("vit", {"rotary_base": 100.0}, ("logits",)),
        ("vit", {"tokenizer": "convolution", "patch": 2, "norm": "compact", "pooling": "sequence"}, ("logits",)),
    ],
    ids=["gpt", "bert", "bert without head", "vit", "vit, rotary", "cct"],
)
def test_an_onnx_file_gives_the_models_numbers_for_any_batch_and_length(family, changes, outputs, tmp_path: Path):
    runtime, model = onnx(), built(family, **changes)
    done = export(model, tmp_path / "model.onnx")
    assert done.outputs == outputs
    assert done.difference <= 1e-5 * max(1.0, done.largest)
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    assert done.nbytes == (tmp_path / "model.onnx").stat().st_size
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    assert {given.name: [str(size) for size in given.shape] for given in session.get_inputs()} == done.inputs
    for rows, length in ((1, 1), (5, 16)):
        given = batch(model, rows, length)
        answers = session.run(list(outputs), {name: value.numpy() for name, value in given.items()})
        with torch.no_grad():
            ours = as_list(model(*given.values()))
        assert all(equal(torch.from_numpy(a), b) for a, b in zip(answers, ours, strict=True))


@pytest.mark.parametrize("family", ["gpt", "bert", "vit"])
def test_a_pt2_file_gives_the_models_numbers_without_our_code(family: str, tmp_path: Path):
    model = built(family)
    done = export(model, tmp_path / "model.pt2")
    assert done.difference <= 1e-5 * max(1.0, done.largest)
    again = torch.export.load(tmp_path / "model.pt2").module()
    for rows, length in ((1, 1), (5, 16)):
        given = tuple(batch(model, rows, length).values())
        with torch.no_grad():
            pairs = zip(as_list(again(*given)), as_list(model(*given)), strict=True)
            assert all(equal(a, b) for a, b in pairs)
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt2"]


def test_int8_is_a_fraction_of_the_size_and_says_its_error(tmp_path: Path):
    onnx()
    model = built("bert", width=96, vocab=3000, layers=1, task=None)
    handlers = list(logging.getLogger().handlers)
    whole, small = export(model, tmp_path / "a.onnx"), export(model, tmp_path / "b.onnx", int8=True)
    assert small.nbytes < 0.4 * whole.nbytes
    assert 1e-5 < small.difference / small.largest < 0.2
    assert logging.getLogger().handlers == handlers
    assert {path.name for path in tmp_path.iterdir()} == {"a.onnx", "b.onnx"}


def test_weights_beyond_a_protobufs_size_go_into_a_file_beside_it(tmp_path: Path, monkeypatch):
    runtime, model = onnx(), built("gpt", width=48, vocab=500)
    monkeypatch.setattr(module, "LARGEST_ONNX", 10_000)
    done = export(model, tmp_path / "model.onnx")
    assert [Path(file).name for file in done.files] == ["model.onnx", "model.onnx.data"]
    assert done.nbytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    given = batch(model, 3, 5)
    [logits] = runtime.InferenceSession(tmp_path / "model.onnx").run(["logits"], {"ids": given["ids"].numpy()})
    with torch.no_grad():
        assert equal(torch.from_numpy(logits), model(*given.values()))


def test_a_file_that_differs_is_not_written_and_the_old_one_stays(tmp_path: Path, monkeypatch):
    (tmp_path / "model.pt2").write_bytes(b"the old one")
    model, write = built("gpt"), module._write_pt2

    def off_by_some(*arguments: Any) -> Any:
        run = write(*arguments)
        return lambda inputs: [output + 0.01 for output in run(inputs)]

    monkeypatch.setattr(module, "_write_pt2", off_by_some)
    with pytest.raises(ClearheadError, match=r"differs from the model by 1.0e-02: nothing was written"):
        export(model, tmp_path / "model.pt2")
    assert (tmp_path / "model.pt2").read_bytes() == b"the old one"
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt2"]


def test_a_nan_counts_as_a_difference(tmp_path: Path, monkeypatch):
    model, write = built("gpt"), module._write_pt2

    def broken(*arguments: Any) -> Any:
        run = write(*arguments)
        return lambda inputs: [output * float("nan") for output in run(inputs)]

    monkeypatch.setattr(module, "_write_pt2", broken)
    with pytest.raises(ClearheadError, match="differs from the model by inf"):
        export(model, tmp_path / "model.pt2")


def test_mistakes_are_one_line(tmp_path: Path):
    gpt = built("gpt")
    for model, name, options, said in [
        (gpt, "model.bin", {}, r"a file named \*.onnx or \*.pt2"),
        (gpt, "nowhere/model.pt2", {}, "no such folder"),
        (gpt, "model.pt2", {"int8": True}, r"--int8 goes with \*.onnx"),
        (built("t5"), "model.pt2", {}, "a t5 model can't be exported, only vit, bert and gpt"),
        (built("gpt", context=3), "model.pt2", {}, "context of 3 tokens"),
    ]:
        with pytest.raises(ClearheadError, match=said) as refused:
            export(model, tmp_path / name, **options)
        assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named_with_what_to_install(tmp_path: Path, monkeypatch):
    found = module.importlib.util.find_spec
    monkeypatch.setattr(
        module.importlib.util, "find_spec", lambda name: None if name == "onnxscript" else found("torch")
    )
    with pytest.raises(ClearheadError, match=r"ONNX needs onnxscript: pip install 'clearhead\[export\]'"):
        export(built("gpt"), tmp_path / "model.onnx")
