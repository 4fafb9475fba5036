"""What turns words and pictures into a model's inputs: the tokenizer or preprocessor of a run or a name."""

import os
from dataclasses import replace
from pathlib import Path

from ..convert import read_json
from ..data import Preprocessor, Tokenizer, character_tokenizer, deck_tokenizer, read_preprocessor, read_tokenizer
from ..errors import ClearheadError
from ..models import Model, names
from ..models.vit import ViTConfig
from .places import located

BUILT_IN = {"deck": deck_tokenizer, "gpt-nano": lambda: character_tokenizer("ABC")}


def tokenizer(source: str | os.PathLike[str] | Model, side: str = "source") -> Tokenizer:
    """The tokenizer of a run folder, a foreign folder, a name that has one built in, or a model from any of these.

    side  "source" or "target", where a translator writes two languages with two vocabularies (Marian)
    """
    if isinstance(source, Model):
        source = source.origin.folder or source.origin.name
    if str(source) in BUILT_IN:
        return BUILT_IN[str(source)]()
    if str(source) in names():
        raise ClearheadError(f"the name {source} comes without a vocabulary: give a folder that has one")
    place = located(source)
    return read_tokenizer(place if place.is_dir() or place.name.startswith("tokenizer") else place.parent, side)


def preprocessor(model: Model) -> Preprocessor:
    """What makes pictures fit a model: as the files beside its weights say, else its size with pixels from -1 to 1."""
    config = model.config
    if not isinstance(config, ViTConfig):
        raise ClearheadError(f"a {model.family} model takes no pictures")
    said = _preprocessor_beside(model.origin.folder) or Preprocessor(resize=config.image)
    return said if said.shape == config.image else replace(said, resize=config.image, crop=None)


def _preprocessor_beside(weights: str | None) -> Preprocessor | None:
    if weights is None:
        return None
    folder = Path(weights) if Path(weights).is_dir() else Path(weights).parent
    by_timm = (folder / "config.json").exists() and "pretrained_cfg" in read_json(folder / "config.json")
    return read_preprocessor(folder) if by_timm or (folder / "preprocessor_config.json").exists() else None
