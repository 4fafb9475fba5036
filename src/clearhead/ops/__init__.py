"""Pure tensor functions. They import torch and `tap` only."""

from . import init, masks, positions
from .activations import ACTIVATIONS, activate
from .attention import PATHS, Path, attention
from .similarity import cosine, nearest, one_hot, similarity

__all__ = [
    "ACTIVATIONS",
    "PATHS",
    "Path",
    "activate",
    "attention",
    "cosine",
    "init",
    "masks",
    "nearest",
    "one_hot",
    "positions",
    "similarity",
]
