"""Folders that are broken or meant ill: one line that says what is wrong, nothing read before, no code run."""

import io
import json
import os
import pickle
import random
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import clearhead
from clearhead import ClearheadError
from clearhead.convert.tensors import Weights
from clearhead.models import FAMILIES, Model
from tests.unit.runs import official
from tests.unit.runs.official import GPT2_CONFIG, VIT_CONFIG, drawn, write_folder


@pytest.fixture
def nothing_is_read(monkeypatch):
    """From here on, to read a tensor's numbers or to fill a table is a failure: only names and shapes may be asked."""
    monkeypatch.setattr(Weights, "__getitem__", lambda *_: pytest.fail("read a tensor of a file that is refused"))
    monkeypatch.setattr(Model, "reset_buffers", lambda *_: pytest.fail("made tables for a model that is refused"))


@pytest.fixture
def deck_folder(tmp_path: Path) -> Path:
    return clearhead.save(clearhead.create("deck", device="cpu"), tmp_path / "deck")


def change_own_config(folder: Path, changes: dict[str, Any]) -> None:
    values = json.loads((folder / "config.json").read_text())
    values["clearhead"]["config"] |= changes
    (folder / "config.json").write_text(json.dumps(values))


def refused(path: Path, **options: Any) -> str:
    with pytest.raises(ClearheadError) as caught:
        clearhead.load(path, device="cpu", **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def gpt2_folder(folder: Path, config: dict[str, Any] | None = None, **tensors: torch.Tensor | None) -> Path:
    """A sound folder but for these fields and tensors; `__` in a name stands for a dot, None takes a tensor away."""
    changed = drawn(official.gpt2()) | {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    return write_folder(folder, GPT2_CONFIG | (config or {}), {n: t for n, t in changed.items() if t is not None})


def test_the_folder_that_the_others_are_made_from_is_sound(tmp_path: Path):
    assert clearhead.load(gpt2_folder(tmp_path), device="cpu").family == "gpt"


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"ln_f__bias": None}, "lacks transformer.ln_f.bias"),
        ({"h__0__attn__rotary": torch.ones(3)}, "has unknown h.0.attn.rotary"),
        ({"lm_head__bias": torch.ones(11)}, "has unknown lm_head.bias"),
        ({"wpe__weight": torch.ones(9, 12)}, "wpe.weight has shape (9, 12), the config asks for (8, 12)"),
        ({"wte__weight": torch.ones(11, 12, dtype=torch.int32)}, "wte.weight holds torch.int32"),
        ({"transformer__ln_f__bias": torch.ones(12)}, "are the same tensor under two names"),
    ],
    ids=["missing", "extra", "extra bias", "misshapen", "integers", "twice"],
)
def test_a_tensor_that_does_not_fit_is_named(tensors, message, tmp_path: Path, nothing_is_read):
    assert message in refused(gpt2_folder(tmp_path, **tensors))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"n_embd": 10**9}, "width must be a whole number from 1 to 16,777,216, not 1000000000"),
        ({"n_embd": 3 * 2**22}, "the config asks for (11, 12582912)"),
        ({"n_inner": 2**24}, "the config asks for (12, 16777216)"),
        ({"vocab_size": 2**24}, "the config asks for (16777216, 12)"),
        ({"n_layer": 10**7}, "layers must be a whole number from 1 to 4,096, not 10000000"),
        ({"n_layer": 4000}, "holds 30 tensors, too few for layers = 4,000"),
        ({"n_layer": 3}, "lacks transformer.h.2.attn.c_attn.bias"),
        ({"n_head": 5}, "5 heads don't divide a width of 12"),
        ({"rotary_dim": 3}, "does not know the field 'rotary_dim' (3)"),
        ({"model_type": "gpt_neo"}, "model_type 'gpt_neo' is not one that clearhead reads"),
        ({"clearhead": {"format_version": 99}}, "format version 99 is unknown to this clearhead"),
    ],
    ids=lambda value: "" if isinstance(value, str) else json.dumps(value)[1:-1],
)
def test_a_config_that_does_not_fit_is_refused_at_once_with_nothing_read(config, message, tmp_path, nothing_is_read):
    folder = gpt2_folder(tmp_path, config)
    start = time.perf_counter()
    assert message in refused(folder)
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"context": 2**24, "width": 2**24}, "the config asks for (30, 16777216)"),
        ({"heads": 2**24, "head_width": 2**24, "value_width": 2**24}, "has shape"),
        ({"layers": 4000}, "too few for layers = 4,000"),
    ],
    ids=["tables", "heads", "layers"],
)
def test_a_config_of_our_own_form_is_trusted_no_more(config, message, deck_folder, nothing_is_read):
    change_own_config(deck_folder, config)
    assert message in refused(deck_folder)


def test_a_table_larger_than_the_machine_is_refused_though_the_weights_fit(tmp_path: Path, monkeypatch):
    """The sinusoids are in no file, so only the memory there is limits them."""
    clearhead.save(clearhead.create("deck", device="cpu", width=512, head_width=2), tmp_path)
    change_own_config(tmp_path, {"context": 2**24})
    monkeypatch.setattr(os, "sysconf", lambda name: 4096 if name == "SC_PAGE_SIZE" else 2**21)
    monkeypatch.setattr(Model, "reset_buffers", lambda *_: pytest.fail("made the table"))
    assert "needs 34.4 GB for its weights and this machine has 8.6 GB" in refused(tmp_path)


def test_sizes_whose_product_overflows_are_refused(tmp_path: Path, nothing_is_read):
    config = {"image_size": 65536, "patch_size": 65536, "num_channels": 2**24, "hidden_size": 2**24}
    folder = write_folder(tmp_path, VIT_CONFIG | config | {"num_attention_heads": 1}, drawn(official.vit()))
    assert "larger than any memory" in refused(folder)


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path: Path, nothing_is_read):
    file = gpt2_folder(tmp_path) / "model.safetensors"
    whole = file.read_bytes()
    for end in (0, 4, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:end])
        assert "model.safetensors" in refused(tmp_path)


class Evil:
    """Unpickled, it would leave a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "bare pickle"])
def test_a_pickle_with_code_in_it_is_refused_and_the_code_is_not_run(zipped: bool, tmp_path: Path):
    folder, mark = gpt2_folder(tmp_path / "folder"), tmp_path / "mark"
    (folder / "model.safetensors").unlink()
    tensors = drawn(official.gpt2()) | {"evil": Evil(mark)}
    if zipped:
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps(tensors))
    assert "pytorch_model.bin" in refused(folder)
    assert not mark.exists()
    pickle.load(io.BytesIO(pickle.dumps(Evil(mark))))  # so it would have been: the mark is real
    assert mark.exists()


@pytest.mark.parametrize("place", ["../outside.safetensors", "/outside.safetensors", "a/../../outside.safetensors"])
def test_an_index_that_points_outside_the_folder_is_refused(place: str, tmp_path: Path, nothing_is_read):
    folder = gpt2_folder(tmp_path / "folder")
    (folder / "model.safetensors").rename(tmp_path / "outside.safetensors")
    places = dict.fromkeys(official.gpt2(), place if place.startswith(("..", "a")) else str(tmp_path / place[1:]))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert "outside" in refused(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not valid JSON"),
        ("{", "is not valid JSON"),
        ("[1]", "must hold a JSON object"),
        ('{"model_type": "gpt2", "model_type": "vit"}', "appears twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"model_type": ' + '"x' * 9_000_000 + '"}', "config.json"),
    ],
    ids=["empty", "cut off", "a list", "a key twice", "deep", "huge"],
)
def test_a_config_that_is_no_config_is_refused(text: str, message: str, tmp_path: Path, nothing_is_read):
    folder = gpt2_folder(tmp_path)
    (folder / "config.json").write_text(text)
    assert message in refused(folder)


# Values that don't belong where they are put.
ODD = [None, True, 0, -1, 1.5, float("nan"), 10**9, 10**30, 2**24, "", "x", "relu", [], [1, 2], ["a", {}], {}, {"a": 1}]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_config_with_one_odd_value_loads_or_is_refused_in_one_line(family: str, tmp_path: Path):
    """Fifty seeded cases a family: whatever stands in config.json, nothing but a ClearheadError comes out."""
    roll = random.Random(family)
    model = FAMILIES[family].model(FAMILIES[family].shrunken).eval()
    model.initialise(torch.Generator().manual_seed(0))
    sound = json.loads((clearhead.save(model, tmp_path) / "config.json").read_text())
    refusals = 0
    for _ in range(50):
        config = json.loads(json.dumps(sound))
        inner = [value for value in config.values() if isinstance(value, dict) and value]
        place = roll.choice([config, config, *inner])
        place[roll.choice(list(place))] = roll.choice(ODD)
        (tmp_path / "config.json").write_text(json.dumps(config))
        try:
            clearhead.load(tmp_path, device="cpu")
        except ClearheadError as error:
            assert "\n" not in str(error)
            refusals += 1
    assert refusals > 10


def test_what_is_not_there_is_named_with_what_to_do(tmp_path: Path):
    assert "there is no folder, file or model" in refused(tmp_path / "nowhere")
    assert "there is no folder" in refused(Path("x" * 5000))
    assert "holds no weights: looked for model.safetensors" in refused(tmp_path)
    with pytest.raises(ClearheadError, match="that is a model's name: `create` makes it with random weights"):
        clearhead.load("gpt2")
    with pytest.raises(ClearheadError, match="did you mean 'gpt2'"):
        clearhead.load("gpt-2")
    save_file({"a": torch.ones(1)}, tmp_path / "model.safetensors")
    assert "has no config.json beside it: name its architecture, as in arch='vit-b16'" in refused(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    assert "neither a folder nor a file that can be read" in refused(tmp_path / "notes.txt")


def test_a_wrong_device_or_type_is_told_before_the_file_is_opened(tmp_path: Path, nothing_is_read):
    folder = gpt2_folder(tmp_path)
    with pytest.raises(ClearheadError, match="there is no device 'gpu'"):
        clearhead.load(folder, device="gpu")
    assert "there is no dtype 'float31'; did you mean 'float32'" in refused(folder, dtype="float31")
