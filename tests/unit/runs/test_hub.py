"""`hf:owner/name` goes through huggingface_hub, here a fake one: what is asked of it, and what its errors become."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import clearhead
from clearhead import ClearheadError
from clearhead.data import word_tokenizer
from tests.unit.runs import official
from tests.unit.runs.official import GPT2_CONFIG, drawn, write_folder

IDS = torch.tensor([[3, 1, 4]])


class FakeHub(ModuleType):
    """Answers with a local folder, or raises; remembers what it was asked."""

    def __init__(self, answer: Path | Exception) -> None:
        super().__init__("huggingface_hub")
        self.answer, self.asked = answer, []

    def snapshot_download(self, name: str, **options: Any) -> str:
        self.asked.append((name, options))
        if isinstance(self.answer, Exception):
            raise self.answer
        return str(self.answer)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch) -> FakeHub:
    fake = FakeHub(write_folder(tmp_path / "snapshot", GPT2_CONFIG, drawn(official.gpt2())))
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    return fake


def refused(address: str) -> str:
    with pytest.raises(ClearheadError) as caught:
        clearhead.load(address)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_address_loads_the_snapshot_and_fetches_nothing_that_is_not_needed(hub: FakeHub):
    model = clearhead.load("hf:openai-community/gpt2", device="cpu")
    assert torch.equal(model(IDS), clearhead.load(hub.answer, device="cpu")(IDS))
    [(name, options)] = hub.asked
    assert (name, options["revision"]) == ("openai-community/gpt2", None)
    assert "*.safetensors" in options["allow_patterns"]
    assert not any("bin" in pattern or pattern == "*" for pattern in options["allow_patterns"])


def test_old_weights_are_fetched_where_there_are_no_others(hub: FakeHub):
    assert isinstance(hub.answer, Path)
    (hub.answer / "model.safetensors").unlink()
    torch.save(drawn(official.gpt2()), hub.answer / "pytorch_model.bin")
    assert clearhead.load("hf:openai-community/gpt2", device="cpu").family == "gpt"
    assert ["pytorch_model*.bin" in options["allow_patterns"] for _, options in hub.asked] == [False, True]


def test_a_revision_is_passed_on(hub: FakeHub):
    clearhead.load("hf:owner/name@v1.0", device="cpu")
    assert hub.asked[0][0] == "owner/name"
    assert hub.asked[0][1]["revision"] == "v1.0"


def test_a_tokenizer_comes_from_the_same_address(hub: FakeHub):
    assert isinstance(hub.answer, Path)
    word_tokenizer("one two").save(hub.answer)
    assert clearhead.tokenizer("hf:owner/name").ids("two one") == [1, 0]
    assert clearhead.tokenizer(clearhead.load("hf:owner/name", device="cpu")).ids("two one") == [1, 0]


@pytest.mark.parametrize("address", ["hf:gpt2", "hf:", "hf:/name", "hf:owner/", "hf:a/b/c"])
def test_an_address_that_is_none_is_refused_before_the_hub_is_asked(address: str, hub: FakeHub):
    assert refused(address) == f"'{address}' is not an address of the form hf:owner/name"
    assert hub.asked == []


@pytest.mark.parametrize(
    "error",
    [
        OSError("404 Client Error\n\nRepository Not Found"),
        FileNotFoundError("404 Client Error: offline"),
        ValueError("404 Client Error is what a bad name is called here"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_the_hub_says_becomes_one_line(error: Exception, hub: FakeHub):
    hub.answer = error
    assert refused("hf:owner/name").startswith("hf:owner/name could not be fetched: 404 Client Error")


def test_without_huggingface_hub_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "pip install huggingface_hub" in refused("hf:owner/name")
