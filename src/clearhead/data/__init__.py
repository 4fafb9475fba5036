"""What goes into a model: text as numbers, pictures as pixels."""

from .images import Preprocessor, from_timm_config, read_preprocessor
from .pictures import Picture, open_picture
from .tokenizer_files import read_tokenizer
from .tokenizers import Tokenizer
from .words import DECK_WORDS, character_tokenizer, deck_tokenizer, word_tokenizer

__all__ = [
    "DECK_WORDS",
    "Picture",
    "Preprocessor",
    "Tokenizer",
    "character_tokenizer",
    "deck_tokenizer",
    "from_timm_config",
    "open_picture",
    "read_preprocessor",
    "read_tokenizer",
    "word_tokenizer",
]
