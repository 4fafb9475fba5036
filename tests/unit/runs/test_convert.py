"""Converting a folder: every number and every file arrives, and a failure on the way leaves what was there."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import clearhead
from clearhead import ClearheadError
from clearhead.convert import hugging_face_format
from clearhead.models import FAMILIES, Model
from clearhead.runs import convert as module
from clearhead.runs.convert import COMPANIONS, convert
from tests.minilm import tiny
from tests.support import equal, peer
from tests.unit.runs import official
from tests.unit.runs.official import GPT2_CONFIG, VIT_CONFIG, drawn, write_folder

SOURCE = Path(__file__).resolve().parents[3] / "src"

# Every form of Hugging Face's that is written, by our family and what differs from its small config.
SAYABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt", {}),
    "gpt2, untied": ("gpt", {"tied": False, "ff": 50}),
    "gpt1": ("gpt", {"norm": "post", "final_norm": False}),
    "bert": ("bert", {}),
    "bert, no head": ("bert", {"task": None}),
    "t5": ("t5", {}),
    "t5, tied": ("t5", {"gated": False, "activation": "relu", "tied": True, "output_scaled": True}),
    "marian": ("transformer", {"norm": "post", "half_split": True, "output_bias": True}),
    "vit": ("vit", {}),
}


def built(family: str, **changes: Any) -> Model:
    """The small model of a family, every weight drawn at random."""
    kind = FAMILIES[family]
    model = kind.model(kind.shrunken.with_changes(**changes))
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0.5, 0.3)
    return model.eval()


def tensors(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def same(first: Path, second: Path) -> bool:
    """Every tensor of both, bit for bit and in its own type."""
    a, b = tensors(first), tensors(second)
    return a.keys() == b.keys() and all(a[name].dtype == b[name].dtype and torch.equal(a[name], b[name]) for name in a)


def entries(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# Nothing is lost


@pytest.mark.parametrize("name", SAYABLE)
def test_there_and_back_again_is_bit_equal(name: str, tmp_path: Path):
    family, changes = SAYABLE[name]
    clearhead.save(built(family, **changes), tmp_path / "source")
    own = convert(tmp_path / "source", tmp_path / "own", to="clearhead")
    assert own.form == f"clearhead-{family}"
    assert tensors(tmp_path / "own").keys() == dict(built(family, **changes).named_parameters()).keys()
    back = convert(tmp_path / "own", tmp_path / "back")
    assert same(tmp_path / "source", tmp_path / "back")
    said = [json.loads((tmp_path / place / "config.json").read_text()) for place in ("source", "back")]
    assert said[0] == said[1]
    assert back.notes == ()


def test_shards_in_half_precision_arrive_whole_and_in_their_own_types(tmp_path: Path):
    weights = {
        name: tensor.half() for name, tensor in drawn(official.gpt2()).items() if not name.endswith(".attn.bias")
    }
    weights["ln_f.weight"] = weights["ln_f.weight"].float()  # of several types, as some files are
    weights["wpe.weight"] = weights["wpe.weight"].bfloat16()
    source = tmp_path / "source"
    source.mkdir()
    (source / "config.json").write_text(json.dumps(GPT2_CONFIG))
    shards = {name: f"model-0000{1 + place % 2}-of-00002.safetensors" for place, name in enumerate(weights)}
    for shard in set(shards.values()):
        save_file({name: weights[name] for name in weights if shards[name] == shard}, source / shard)
    (source / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    done = convert(source, tmp_path / "whole")
    assert done.dtypes == ("bfloat16", "float16", "float32")
    arrived = tensors(tmp_path / "whole")
    assert arrived.keys() == {f"transformer.{name}" for name in weights}
    for name, tensor in weights.items():
        assert arrived[f"transformer.{name}"].dtype == tensor.dtype
        assert torch.equal(arrived[f"transformer.{name}"], tensor)


def test_a_head_that_repeats_the_table_and_old_masks_are_left_out(tmp_path: Path):
    weights = drawn(official.gpt2_of_transformers_4())
    weights["lm_head.weight"] = weights["transformer.wte.weight"].clone()
    done = convert(write_folder(tmp_path / "old", GPT2_CONFIG, weights), tmp_path / "new")
    assert "lm_head.weight" not in tensors(tmp_path / "new")
    assert not any(".attn.bias" in name for name in tensors(tmp_path / "new"))
    assert "dropped" in done.notes[0]
    kind = peer("transformers").GPT2LMHeadModel
    theirs, report = kind.from_pretrained(tmp_path / "new", output_loading_info=True)
    assert {what: list(names) for what, names in report.items() if names} == {}
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    with torch.no_grad():
        assert equal(theirs.eval()(ids).logits, clearhead.load(tmp_path / "old", device="cpu")(ids))


def test_labels_and_token_numbers_stay_in_the_config(tmp_path: Path):
    config = VIT_CONFIG | {"problem_type": "single_label_classification", "_name_or_path": "somewhere/else"}
    source = write_folder(tmp_path / "source", config, drawn(official.vit()))
    convert(source, tmp_path / "own", to="clearhead")
    convert(tmp_path / "own", tmp_path / "back")
    for place in ("own", "back"):
        values = json.loads((tmp_path / place / "config.json").read_text())
        assert values["id2label"] == VIT_CONFIG["id2label"]
        assert values["problem_type"] == "single_label_classification"
        assert "_name_or_path" not in values


def test_tokenizer_and_preprocessor_files_are_copied_byte_for_byte_and_nothing_else(tmp_path: Path):
    source = tiny(tmp_path / "source")
    random = torch.Generator().manual_seed(0)
    for name in COMPANIONS:
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_bytes(bytes(torch.randint(256, (50,), generator=random).tolist()))
    (source / "training_args.bin").write_bytes(b"a stranger")
    done = convert(source, tmp_path / "copy")
    assert set(done.copied) == set(COMPANIONS)
    for name in COMPANIONS:
        assert (tmp_path / "copy" / name).read_bytes() == (source / name).read_bytes()
    assert not (tmp_path / "copy" / "training_args.bin").exists()


def test_a_bare_file_of_timm_becomes_a_folder(tmp_path: Path):
    timm = peer("timm")
    theirs = timm.create_model("vit_tiny_patch16_224", num_classes=3).eval()
    save_file({name: tensor.contiguous() for name, tensor in theirs.state_dict().items()}, tmp_path / "w.safetensors")
    (tmp_path / "tokenizer.json").write_text("{}")  # beside a bare file anything may lie
    done = convert(tmp_path / "w.safetensors", tmp_path / "folder", arch="vit-ti16")
    assert (done.form, done.copied) == ("vit", ())
    images = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        assert equal(clearhead.load(tmp_path / "folder", device="cpu")(images), theirs(images))


def test_a_folder_of_timm_takes_its_preprocessing_along(tmp_path: Path):
    timm = peer("timm")
    sizes = {"embed_dim": 24, "depth": 1, "num_heads": 3, "img_size": 12, "patch_size": 4, "num_classes": 5}
    model = timm.create_model("vit_tiny_patch16_224", **sizes)
    timm.models.save_for_hf(model, tmp_path / "timm", model_args=sizes, safe_serialization=True)
    convert(tmp_path / "timm", tmp_path / "hf")
    before, after = (clearhead.load(tmp_path / place, device="cpu") for place in ("timm", "hf"))
    assert clearhead.runs.preprocessor(before) == clearhead.runs.preprocessor(after)


# What is refused


@pytest.mark.parametrize(
    ("family", "changes", "said"),
    [
        ("gpt", {"positions": "rotary"}, "positions = 'rotary'"),
        ("gpt", {"band": 4}, "band = 4"),
        ("vit", {"pooling": "mean"}, "pooling = 'mean'"),
        ("vit", {"stride": 2}, r"stride = \(2, 2\)"),
        ("transformer", {}, "norm = 'pre'"),
    ],
)
def test_what_hugging_faces_form_can_not_say_is_named(family: str, changes: dict, said: str, tmp_path: Path):
    model = built(family, **changes)
    assert hugging_face_format(model)[0] is None
    clearhead.save(model, tmp_path / "own")
    with pytest.raises(ClearheadError, match=f"can't say {said}: use --to clearhead"):
        convert(tmp_path / "own", tmp_path / "hf")
    assert entries(tmp_path) == {"own"}
    convert(tmp_path / "own", tmp_path / "again", to="clearhead")
    assert same(tmp_path / "own", tmp_path / "again")


def test_mistakes_are_one_line_and_write_nothing(tmp_path: Path):
    source = write_folder(tmp_path / "source", GPT2_CONFIG, drawn(official.gpt2()))
    headless = write_folder(tmp_path / "headless", VIT_CONFIG, drawn(official.vit_in21k()))
    (tmp_path / "empty").mkdir()
    target = tmp_path / "target"
    for given, options, said in [
        (source, {"to": "onnx"}, "no form 'onnx'"),
        (tmp_path / "nowhere", {}, "there is no folder or file"),
        ("vit-b16", {}, "a model's name, without weights"),
        (tmp_path / "empty", {}, "holds no weights"),
        (source, {"arch": "vit-b16"}, "name another arch"),
        (source, {"arch": "vit-b61"}, "did you mean"),
        (source / "model.safetensors", {"arch": "gpt2"}, "too few for layers|lacks|has shape"),
        (headless, {}, "no classification head"),
    ]:
        with pytest.raises(ClearheadError, match=said) as refused:
            convert(given, target, **options)
        assert "\n" not in str(refused.value)
    assert entries(tmp_path) == {"source", "headless", "empty"}


def test_an_existing_folder_is_refused_without_force_and_replaced_with_it(tmp_path: Path):
    source = write_folder(tmp_path / "source", GPT2_CONFIG, drawn(official.gpt2()))
    old = clearhead.save(clearhead.create("deck", seed=1, device="cpu"), tmp_path / "old")
    (old / "notes.txt").write_text("of the old one")
    with pytest.raises(ClearheadError, match="exists: give another folder, or --force"):
        convert(source, old)
    assert entries(old) == {"config.json", "model.safetensors", "notes.txt"}
    convert(source, old, force=True)
    assert entries(old) == {"config.json", "model.safetensors"}
    assert clearhead.load(old, device="cpu").config.vocab == official.VOCAB
    assert entries(tmp_path) == {"source", "old"}


def test_force_replaces_no_folder_that_holds_something_else(tmp_path: Path):
    source = write_folder(tmp_path / "home" / "source", GPT2_CONFIG, drawn(official.gpt2()))
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"a cat")
    (tmp_path / "file").write_text("text")
    for target, said in [
        (tmp_path / "photos", "not a model's folder"),
        (tmp_path / "file", "not a model's folder"),
        (tmp_path / "home", "holds what is to be converted"),
        (source, "holds what is to be converted"),
    ]:
        with pytest.raises(ClearheadError, match=said):
            convert(source, target, force=True)
    assert (tmp_path / "photos" / "cat.png").exists()
    assert (source / "model.safetensors").exists()


# A failure on the way

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
from clearhead.errors import ClearheadError
from clearhead.runs.convert import convert
try:
    convert(sys.argv[2], sys.argv[3], force=True)
except ClearheadError as mistake:
    sys.exit(str(mistake))
"""
KILLED = """
import os, signal, sys
from clearhead.runs.convert import convert
def stop(done, total):
    if done > total / 2:
        os.kill(os.getpid(), signal.SIGKILL)
convert(sys.argv[1], sys.argv[2], force=True, progress=stop)
"""


def started(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    words = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path, bytes]:
    """A source, an old folder that is to be replaced, and the old weights."""
    source = write_folder(tmp_path / "source", GPT2_CONFIG, drawn(official.gpt2()))
    old = clearhead.save(clearhead.create("deck", seed=1, device="cpu"), tmp_path / "old")
    return source, old, (old / "model.safetensors").read_bytes()


def test_a_full_disk_leaves_the_old_folder_and_no_half_one(two, tmp_path: Path):
    source, old, before = two
    done = started(LIMITED, 8192, source, old)
    assert done.returncode == 1
    assert "could not be written: File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert (old / "model.safetensors").read_bytes() == before
    assert entries(tmp_path) == {"source", "old"}


def test_a_kill_leaves_the_old_folder_as_it_was(two, tmp_path: Path):
    source, old, before = two
    done = started(KILLED, source, old)
    assert done.returncode == -signal.SIGKILL
    assert (old / "model.safetensors").read_bytes() == before
    assert clearhead.load(old, device="cpu").config.vocab == 30
    [part] = entries(tmp_path) - {"source", "old"}
    assert part.startswith(".old.") and part.endswith(".part")


def test_an_interrupt_cleans_up_and_goes_on_up(two, tmp_path: Path):
    source = two[0]

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(source, tmp_path / "new", progress=interrupt)
    assert entries(tmp_path) == {"source", "old"}


def test_a_last_rename_that_fails_brings_the_old_folder_back(two, tmp_path: Path, monkeypatch):
    source, old, before = two
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name.endswith(".part"):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(module.Path, "rename", failing)
    with pytest.raises(ClearheadError, match="old could not be written: Input/output error"):
        convert(source, old, force=True)
    assert (old / "model.safetensors").read_bytes() == before
    assert entries(tmp_path) == {"source", "old"}


def test_progress_counts_every_byte_once(tmp_path: Path):
    source = write_folder(tmp_path / "source", GPT2_CONFIG, drawn(official.gpt2()))
    seen: list[tuple[int, int]] = []
    done = convert(source, tmp_path / "new", progress=lambda now, total: seen.append((now, total)))
    assert {total for _, total in seen} == {done.nbytes}
    assert [now for now, _ in seen] == sorted(now for now, _ in seen)
    assert len(seen) == done.tensors and seen[0][0] == 0
    assert done.nbytes == sum(tensor.nbytes for tensor in tensors(tmp_path / "new").values())
