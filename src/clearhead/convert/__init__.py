"""Foreign checkpoints in and out. At the bottom: reading other people's weight files without trusting them."""

from ..files import read_json
from .formats import described, hugging_face_format, recognise
from .rules import read_state, write_state
from .tensors import Weights, open_weights, write_safetensors

__all__ = [
    "Weights",
    "described",
    "hugging_face_format",
    "open_weights",
    "read_json",
    "read_state",
    "recognise",
    "write_safetensors",
    "write_state",
]
