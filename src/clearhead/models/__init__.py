"""One family a file: its config, its sizes as data, its model. The registry knows them all."""

from .base import Config, Family, Model, Origin
from .registry import FAMILIES, Entry, create, find, list_models, names

__all__ = ["FAMILIES", "Config", "Entry", "Family", "Model", "Origin", "create", "find", "list_models", "names"]
