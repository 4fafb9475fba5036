"""The modules every family is put together from."""

from .attention import CrossAttention, Heads, SelfAttention, use_path
from .block import BLOCKS, Block, CompactBlock, Pass, PostNormBlock, PreNormBlock
from .cache import Cache
from .embeddings import SharedTokens, TextInput, TokenEmbedding, VocabularyHead
from .feed_forward import FeedForward, GatedFeedForward
from .int8 import Int8Linear, Int8Tokens, bytes_of, quantise
from .linear import Linear
from .norm import LayerNorm, RMSNorm
from .picture_input import ConvolutionInput, PatchInput, PictureInput
from .pooling import FirstRow, MeanOfRows, SequencePooling
from .positions import FixedPositions, GridRotary, LearnedPositions, Rotary
from .relative_bias import RelativeBias
from .stack import Stack
from .state import Encoded, State, last_rows

__all__ = [
    "BLOCKS",
    "Block",
    "Cache",
    "CompactBlock",
    "ConvolutionInput",
    "CrossAttention",
    "Encoded",
    "FeedForward",
    "FirstRow",
    "FixedPositions",
    "GatedFeedForward",
    "GridRotary",
    "Heads",
    "Int8Linear",
    "Int8Tokens",
    "LayerNorm",
    "LearnedPositions",
    "Linear",
    "MeanOfRows",
    "Pass",
    "PatchInput",
    "PictureInput",
    "PostNormBlock",
    "PreNormBlock",
    "RMSNorm",
    "RelativeBias",
    "Rotary",
    "SelfAttention",
    "SequencePooling",
    "SharedTokens",
    "Stack",
    "State",
    "TextInput",
    "TokenEmbedding",
    "VocabularyHead",
    "bytes_of",
    "last_rows",
    "quantise",
    "use_path",
]
