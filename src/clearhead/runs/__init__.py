"""A run is a folder: save a model into one, load one (or a foreign one), describe what was done on the way."""

from .folder import load, save
from .inputs import preprocessor, tokenizer

__all__ = ["load", "preprocessor", "save", "tokenizer"]
