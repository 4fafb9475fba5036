"""Every registered family's folder: it reads back bit for bit, and other people's code reads it where it can say it."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import clearhead
from clearhead.convert import hugging_face_format
from clearhead.models import FAMILIES, Model
from tests.support import equal, peer

SHRUNKEN = {name: family.shrunken for name, family in FAMILIES.items()}
# Families with more than one form of Hugging Face's: a config for each of the others.
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt, untied": ("gpt", {"tied": False, "ff": 50}),
    "gpt, post-norm": ("gpt", {"norm": "post", "final_norm": False}),
    "bert, no head": ("bert", {"task": None}),
    "bert, classify": ("bert", {"task": "classify", "num_classes": 3}),
    "t5, first version": ("t5", {"gated": False, "activation": "relu", "tied": True, "output_scaled": True}),
    "transformer, as Marian": ("transformer", {"norm": "post", "half_split": True, "output_bias": True}),
}
# What no form of Hugging Face's can say.
UNSAYABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt, sinusoidal": ("gpt", {"positions": "sinusoidal"}),
    "gpt, rotary": ("gpt", {"positions": "rotary"}),
    "gpt, banded": ("gpt", {"band": 4}),
    "vit, mean": ("vit", {"pooling": "mean"}),
    "vit, overlapping": ("vit", {"stride": 2}),
    "vit, no positions": ("vit", {"positions": "none"}),
    "vit, rotary": ("vit", {"rotary_base": 100.0, "locality": 1.6, "start": "scaled"}),
    "cct": (
        "vit",
        {"tokenizer": "convolution", "patch": 2, "norm": "compact", "pooling": "sequence", "start": "cct"},
    ),
    "transformer, pre-norm": ("transformer", {}),
}
CONFIGS = {name: (name, {}) for name in SHRUNKEN} | OTHERS | UNSAYABLE


def built(name: str) -> Model:
    """The small model, every weight drawn at random: a head of zeros would make all outputs equal."""
    family, changes = CONFIGS[name]
    model = FAMILIES[family].model(SHRUNKEN[family].with_changes(**changes))
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight_name, weight in model.named_parameters():
            mean = 1.0 if "norm" in weight_name and weight_name.endswith("weight") else 0.0
            weight.copy_(mean + 0.3 * torch.randn(weight.shape, generator=random))
    return model.eval()


def tensors(output: Any) -> list[Tensor]:
    return [output] if isinstance(output, Tensor) else list(output)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_saved_model_loads_bit_for_bit(name: str, tmp_path: Path):
    model = built(name)
    clearhead.save(model, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "model.safetensors"}
    again = clearhead.load(tmp_path, device="cpu")
    assert again.config == model.config
    assert type(again) is type(model)
    assert again.origin.notes == ()
    inputs = model.example(2, torch.Generator().manual_seed(1))
    pairs = zip(tensors(model(*inputs)), tensors(again(*inputs)), strict=True)
    assert all(torch.equal(ours, theirs) for ours, theirs in pairs)
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("name", CONFIGS)
def test_what_is_saved_twice_is_the_same_file(name: str, tmp_path: Path):
    clearhead.save(built(name), tmp_path / "first")
    clearhead.save(clearhead.load(tmp_path / "first", device="cpu"), tmp_path / "second")
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()


ASKS = {"text": "input_ids", "image": "pixel_values", "source": "input_ids", "target": "decoder_input_ids"}


def their_answer(theirs: torch.nn.Module, model: Model, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """What their model computes from the same inputs: its logits, or the hidden states where it has no head."""
    with torch.no_grad():
        result = theirs(**dict(zip([ASKS[kind] for kind in model.takes], inputs, strict=True)))
    names = [name for name in result if name.endswith("logits")] or ["last_hidden_state", "pooler_output"]
    return [result[name] for name in names]


@pytest.mark.parametrize("name", CONFIGS)
def test_transformers_computes_the_same_from_the_folder_or_refuses_it(name: str, tmp_path: Path):
    model = built(name)
    said, _ = hugging_face_format(model)
    assert said is not None or name not in OTHERS
    assert said is None or name not in UNSAYABLE
    clearhead.save(model, tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    if said is None:
        assert values["model_type"] == f"clearhead-{model.family}"
        assert_refused(tmp_path, values["model_type"])
    else:
        assert_same(model, tmp_path, values["architectures"])


def assert_refused(folder: Path, kind: str) -> None:
    transformers = peer("transformers")
    for loader in (transformers.AutoConfig, transformers.AutoModel):
        with pytest.raises(ValueError, match=kind):
            loader.from_pretrained(folder)


def assert_same(model: Model, folder: Path, classes: list[str]) -> None:
    """The class that config.json names loads it with no key missing, unexpected or misshapen, and gives our numbers."""
    [name] = classes
    theirs, report = getattr(peer("transformers"), name).from_pretrained(folder, output_loading_info=True)
    assert {kind: list(names) for kind, names in report.items() if names} == {}
    inputs = model.example(2, torch.Generator().manual_seed(1))[: len(model.takes)]  # whole rows, so no lengths
    with torch.no_grad():
        ours = tensors(model(*inputs))
    for mine, other in zip(ours, their_answer(theirs.eval(), model, inputs), strict=True):
        assert equal(mine, other)
