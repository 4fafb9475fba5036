"""`Writer`: a model that writes, its vocabularies, and what its folder says about beginnings, ends and bans."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from ..data import Tokenizer
from ..decode import check_decodes
from ..decode import continues as continues_text
from ..errors import ClearheadError, shown
from ..files import read_optional_json
from ..models import Model
from ..runs import tokenizer
from ..trace import underneath


@dataclass(frozen=True)
class Writer:
    """A model that writes.

    end     tokens that end a text
    never   tokens that are never written: padding, what the folder forbids, numbers that the vocabulary lacks
    prefix  how every answer begins, where the model's own config does not say it
    """

    model: Any
    source: Tokenizer
    target: Tokenizer
    end: frozenset[int]
    never: frozenset[int]
    prefix: tuple[int, ...] | None

    @cached_property
    def continues(self) -> bool:
        return continues_text(self.model)

    @property
    def context(self) -> int | None:
        return getattr(self.model.config, "context", None)

    def ids(self, text: str) -> list[int]:
        """A prompt or a source as numbers; one without any token of its own is refused."""
        if not self.source.ids(text, special=False):
            raise ClearheadError("the prompt is empty: there is nothing to go on from")
        return self.source.ids(text)

    def room(self, ids: Sequence[int]) -> int | None:
        """How many tokens can be written behind these, or in answer to them; the last of them is never read again."""
        if self.context is None:
            return None
        return self.context + 1 - (len(ids) if self.continues else len(self.prefix or (0,)))

    def pieces(self, tokens: Sequence[int]) -> tuple[str, ...]:
        """What each token stands for, as a person reads it; `#5` for a number that the vocabulary lacks."""
        return tuple(self.target.pieces([token])[0] if token in self._known else f"#{token}" for token in tokens)

    @cached_property
    def _known(self) -> set[int]:
        return set(self.target.vocabulary.values())


def writer(model: nn.Module) -> Writer:
    """The model underneath with all that it needs to write; one that can't write is refused."""
    model = underneath(model)
    if not isinstance(model, Model):
        raise ClearheadError(f"a clearhead model writes text, not a {type(model).__name__}")
    check_decodes(model)
    config, both = model.config, not continues_text(model)  # pyright: ignore[reportArgumentType]
    source = tokenizer(model)
    target = tokenizer(model, side="target") if both else source
    size = getattr(config, "target_vocab", None) or config.vocab
    for tok, knows in ((source, config.vocab), (target, size)):
        if tok.size > knows:
            raise ClearheadError(
                f"the tokenizer has {tok.size} tokens and the model knows {knows}: they don't belong together"
            )
    said = _said(model)
    end = {config.end_token} if getattr(config, "end_token", None) is not None else set()
    end |= {target.special[role] for role in ("eos",) if role in target.special}
    end = frozenset(number for number in end | _numbers(said, "eos_token_id") if number < size)
    padding = {getattr(config, "pad_token", None), target.special.get("pad")} - {None, *end}
    nameless = set(range(size)) - set(target.vocabulary.values())
    never = frozenset(number for number in padding | nameless | _forbidden(said) if number < size)
    return Writer(model, source, target, end, never, _beginning(model, said, target) if both else None)


def _beginning(model: Model, said: dict[str, Any], target: Tokenizer) -> tuple[int, ...] | None:
    if model.start_token is not None:
        return None
    named = _numbers(said, "decoder_start_token_id") or {target.special.get("bos", target.special.get("pad"))}
    return tuple(number for number in named if number is not None) or None


def _said(model: Model) -> dict[str, Any]:
    """What a Hugging Face folder says about writing; its generation_config.json has the last word."""
    if model.origin.folder is None:
        return {}
    folder = Path(model.origin.folder)
    folder = folder if folder.is_dir() else folder.parent
    named = {**read_optional_json(folder / "config.json"), **read_optional_json(folder / "generation_config.json")}
    return {key: value for key, value in named.items() if value is not None}


def _numbers(said: dict[str, Any], key: str) -> set[int]:
    value = said.get(key, [])
    numbers = value if isinstance(value, list) else [value]
    if any(type(number) is not int or number < 0 for number in numbers):
        raise ClearheadError(f"the model's folder says {key} {shown(value, 60)!r}, which is no token's number")
    return set(numbers)


def _forbidden(said: dict[str, Any]) -> set[int]:
    """bad_words_ids, where each of them is one token: official Marian folders forbid their padding so."""
    rows = said.get("bad_words_ids", [])
    if not isinstance(rows, list) or any(not isinstance(row, list) or len(row) != 1 for row in rows):
        raise ClearheadError("the model's folder forbids sequences of tokens (bad_words_ids): only single ones can be")
    return _numbers({"bad_words_ids": [row[0] for row in rows]}, "bad_words_ids")
