"""A studio over small models that are made here, and a client that speaks to it as its own page would."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the studio is an optional extra: pip install 'clearhead[studio]'")
pytest.importorskip("httpx", reason="the test client needs httpx")

from starlette.testclient import TestClient

import clearhead
from clearhead.data import Preprocessor
from clearhead.models import create
from clearhead.runs.labels import name_classes
from clearhead.studio.app import create_app
from clearhead.studio.core import Settings
from tests.unit.studio.asking import TOKEN
from tests.writers import letters, trained_translator

BERT_WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "a", "mat", "##s", "dog")


@pytest.fixture
def studio() -> Callable[..., TestClient]:
    """A client of a studio with these settings. It is on this machine and knows the token."""

    def make(*runs: Path | str, **settings: Any) -> TestClient:
        app = create_app(Settings(runs=tuple(map(str, runs)), token=TOKEN, **settings))
        return TestClient(
            app, "http://127.0.0.1:8421", headers={"X-Clearhead-Token": TOKEN}, raise_server_exceptions=False
        )

    return make


@pytest.fixture(scope="session")
def letters_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT over the letters a to h, each of which it knows the follower of."""
    return letters(tmp_path_factory.mktemp("runs") / "letters")


@pytest.fixture(scope="session")
def translator_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder-decoder that has learnt a small dictionary."""
    return trained_translator(tmp_path_factory.mktemp("runs") / "translator")


@pytest.fixture(scope="session")
def bert_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT with random weights that fills blanks, in a folder as others leave it: with a vocab.txt."""
    folder = tmp_path_factory.mktemp("runs") / "bert"
    sizes = {"width": 16, "layers": 2, "heads": 2, "context": 16, "dropout": 0.0, "attention_dropout": 0.0}
    model = create("bert-base", vocab=len(BERT_WORDS), task="fill", init_std=0.3, seed=0, device="cpu", **sizes)
    clearhead.save(model, folder)
    (folder / "vocab.txt").write_text("\n".join(BERT_WORDS) + "\n")
    return folder


@pytest.fixture(scope="session")
def vit_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = {"width": 16, "layers": 2, "heads": 2, "patch": 4, "image": (12, 8), "num_classes": 3}
    model = create("vit-ti16", seed=0, device="cpu", **sizes)
    model.get_parameter("output.weight").data.normal_()
    name_classes(model, ("cat", "dog", "house"))
    prepare = Preprocessor(resize=(12, 8), mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
    return clearhead.save(model, tmp_path_factory.mktemp("runs") / "vit", preprocessor=prepare)
