"""The modules every family is put together from."""

from .attention import CrossAttention, Heads, SelfAttention, use_path
from .block import BLOCKS, Block, Pass, PostNormBlock, PreNormBlock
from .cache import Cache
from .embeddings import PatchInput, SharedTokens, TextInput, TokenEmbedding, VocabularyHead
from .feed_forward import FeedForward, GatedFeedForward
from .norm import LayerNorm, RMSNorm
from .positions import FixedPositions, LearnedPositions, Rotary
from .relative_bias import RelativeBias
from .stack import Encoded, Stack

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
    "TextInput",
    "TokenEmbedding",
    "VocabularyHead",
    "use_path",
]
