"""What turns words and pictures into a model's inputs: the tokenizer or preprocessor of a run or a name."""

import os
from pathlib import Path

from ..data import Preprocessor, Tokenizer, character_tokenizer, deck_tokenizer, read_preprocessor, read_tokenizer
from ..errors import ClearheadError
from ..models import Model, names
from ..models.vit import ViTConfig

BUILT_IN = {"deck": deck_tokenizer, "gpt-nano": lambda: character_tokenizer("ABC")}


def tokenizer(source: str | os.PathLike[str] | Model) -> Tokenizer:
    """The tokenizer of a run folder, a foreign folder, a name that has one built in, or a model from any of these."""
    if isinstance(source, Model):
        source = source.origin.folder or source.origin.name
    if str(source) in BUILT_IN:
        return BUILT_IN[str(source)]()
    if str(source) in names():
        raise ClearheadError(f"the name {source} comes without a vocabulary: give a folder that has one")
    place = Path(source)
    return read_tokenizer(place if place.is_dir() or place.name.startswith("tokenizer") else place.parent)


def preprocessor(model: Model) -> Preprocessor:
    """The preprocessor saved beside a model's weights, else the plain one: its resolution, pixels from -1 to 1."""
    folder = model.origin.folder
    if folder is not None and (Path(folder) / "preprocessor_config.json").exists():
        return read_preprocessor(folder)
    config = model.config
    if not isinstance(config, ViTConfig):
        raise ClearheadError(f"a {model.family} model takes no pictures")
    return Preprocessor(resize=config.image)
