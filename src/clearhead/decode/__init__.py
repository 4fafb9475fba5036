"""Writing text with any model that has `start` and `step`: greedy, sampling, beam search, streaming."""

from .allowed import Allowed
from .beam import Node, Search, beam_search
from .beam_rules import Beams, Hypothesis
from .loop import generate
from .modes import Guess, Modes, compare_modes
from .pieces import Limits, Piece, Written, collect
from .protocol import Decoder, Rows, check_decodes, continues
from .sampling import Sampling
from .text import TextStream

__all__ = [
    "Allowed",
    "Beams",
    "Decoder",
    "Guess",
    "Hypothesis",
    "Limits",
    "Modes",
    "Node",
    "Piece",
    "Rows",
    "Sampling",
    "Search",
    "TextStream",
    "Written",
    "beam_search",
    "check_decodes",
    "collect",
    "compare_modes",
    "continues",
    "generate",
]
