"""WordPiece from a bare `vocab.txt`: BERT's own form, one token a line, a line's number is the token's.

Lower-casing, accents and Chinese letters are as `tokenizer_config.json` beside it says, and as transformers'
BertTokenizer has them where it says nothing.
"""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from ..errors import ClearheadError
from ..files import read_optional_json, read_text

SPECIAL = {"unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "mask": "[MASK]"}
NEEDED = ("unk", "cls", "sep")


def read_wordpiece(vocabulary_file: Path) -> Backend:
    """The tokenizer of a vocab.txt: [CLS] text [SEP], or [CLS] first [SEP] second [SEP] with 0s and 1s as segments."""
    read_text(vocabulary_file)  # says in one line what the library would not
    numbers = models.WordPiece.read_file(str(vocabulary_file))  # it and Python differ on where some lines end
    config = read_optional_json(vocabulary_file.parent / "tokenizer_config.json")
    special = {role: _spelling(config.get(f"{role}_token"), customary) for role, customary in SPECIAL.items()}
    for role in NEEDED:
        if special[role] not in numbers:
            raise ClearheadError(f"{vocabulary_file} is not a WordPiece vocabulary: it has no line {special[role]!r}")
    backend = Backend(models.WordPiece(numbers, unk_token=special["unk"]))
    backend.normalizer = normalizers.BertNormalizer(  # pyright: ignore[reportAttributeAccessIssue]
        clean_text=True,
        handle_chinese_chars=_switch(config, "tokenize_chinese_chars", True),
        strip_accents=_switch(config, "strip_accents", None),
        lowercase=_switch(config, "do_lower_case", True),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # pyright: ignore[reportAttributeAccessIssue]
    backend.decoder = decoders.WordPiece(prefix="##")  # pyright: ignore[reportAttributeAccessIssue]
    cls, sep = special["cls"], special["sep"]
    backend.post_processor = processors.TemplateProcessing(  # pyright: ignore[reportAttributeAccessIssue]
        single=[f"{cls}:0", "$A:0", f"{sep}:0"],
        pair=[f"{cls}:0", "$A:0", f"{sep}:0", "$B:1", f"{sep}:1"],
        special_tokens=[(token, numbers[token]) for token in (cls, sep)],
    )
    backend.add_special_tokens([token for token in special.values() if token in numbers])
    return backend


def _spelling(said: Any, customary: str) -> str:
    """A token as tokenizer_config.json names it: a text, or an object with its `content`."""
    said = said.get("content") if isinstance(said, dict) else said
    return said if isinstance(said, str) and said else customary


def _switch(config: dict[str, Any], name: str, default: bool | None) -> Any:
    value = config.get(name)
    if value is not None and not isinstance(value, bool):
        raise ClearheadError(f"tokenizer_config.json: {name} must be true or false, not {value!r}")
    return default if value is None else value
