"""What goes into a model: text as numbers, pictures as pixels."""

from clearhead.data.images import Preprocessor, from_timm_config, open_picture, read_preprocessor
from clearhead.data.tokenizers import Tokenizer, read_tokenizer
from clearhead.data.words import DECK_WORDS, character_tokenizer, deck_tokenizer, word_tokenizer

__all__ = [
    "DECK_WORDS",
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
