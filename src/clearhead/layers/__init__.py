"""The modules every family is put together from."""

from .attention import CrossAttention, Heads, SelfAttention, use_path
from .block import BLOCKS, Block, Pass, PostNormBlock, PreNormBlock
from .cache import Cache
from .embeddings import PatchInput, SharedTokens, TextInput, TokenEmbedding, VocabularyHead
from .feed_forward import FeedForward, GatedFeedForward
from .norm import LayerNorm, RMSNorm
from .positions import FixedPositions, LearnedPositions, Rotary
from .relative_bias import RelativeBias
from .stack import Stack
from .state import Encoded, State, last_rows

__all__ = [
    "BLOCKS",
    "Block",
    "Cache",
    "CrossAttention",
    "Encoded",
    "FeedForward",
    "FixedPositions",
    "GatedFeedForward",
    "Heads",
    "LayerNorm",
    "LearnedPositions",
    "Pass",
    "PatchInput",
    "PostNormBlock",
    "PreNormBlock",
    "RMSNorm",
    "RelativeBias",
    "Rotary",
    "SelfAttention",
    "SharedTokens",
    "Stack",
    "State",
    "TextInput",
    "TokenEmbedding",
    "VocabularyHead",
    "last_rows",
    "use_path",
]
