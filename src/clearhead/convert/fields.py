"""Config fields between Hugging Face's vocabulary and ours.

Every field that changes the arithmetic is honoured or is an error that names it; what is ignored is listed.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import ClearheadError, near, quoted, shown

ACTIVATIONS_IN = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "quick_gelu": "quick-gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
ACTIVATIONS_OUT = {
    "gelu-tanh": "gelu_new",
    "gelu": "gelu",
    "quick-gelu": "quick_gelu",
    "relu": "relu",
    "silu": "silu",
    "tanh": "tanh",
}

# What a config.json carries beside the architecture: bookkeeping, token numbers, decoding settings, initialisation.
# fmt: off
IGNORED = frozenset({
    "architectures", "dtype", "torch_dtype", "transformers_version", "_name_or_path", "name_or_path",
    "model_type", "clearhead", "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id",
    "mask_token_id", "unk_token_id", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id",
    "prefix", "use_cache", "initializer_range", "initializer_factor", "task_specific_params", "id2label",
    "label2id", "num_labels", "problem_type", "finetuning_task", "return_dict", "output_attentions",
    "output_hidden_states", "torchscript", "use_bfloat16", "max_length", "min_length", "do_sample",
    "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p",
    "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "output_scores",
    "return_dict_in_generate", "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens",
    "begin_suppress_tokens", "_attn_implementation", "attn_implementation", "_attn_implementation_autoset",
    "gradient_checkpointing", "_num_labels", "tokenizer_class", "use_return_dict", "output_past",
    "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj",
})
# fmt: on


class Kind(NamedTuple):
    name: str
    fits: Callable[[Any], bool]


KINDS = {
    bool: Kind("true or false", lambda value: isinstance(value, bool)),
    float: Kind("a number", lambda value: type(value) in (int, float) and math.isfinite(value)),
    str: Kind("a text", lambda value: isinstance(value, str)),
}


def check_kind(name: str, value: Any, default: Any) -> None:
    """A value must be of its default's kind. Sizes and what may be None are left to the config's own check."""
    kind = KINDS.get(type(default))
    if kind is not None and not kind.fits(value):
        raise ClearheadError(f"config.json: {name} must be {kind.name}, not {shown(repr(value), 80)}")


@dataclass(frozen=True)
class Field:
    """`theirs` and `ours` name one thing; `default` is theirs, for configs that leave it out."""

    theirs: str
    ours: str
    default: Any
    read: Callable[[Any], Any] = lambda value: value
    write: Callable[[Any], Any] = lambda value: value

    def of(self, values: Mapping[str, Any]) -> Any:
        """Our value out of their config.json."""
        value = values.get(self.theirs, self.default)
        check_kind(self.theirs, value, self.default)
        return self.read(value)


def activation(theirs: str, default: str, ours: str = "activation") -> Field:
    def read(value: str) -> str:
        if value not in ACTIVATIONS_IN:
            raise ClearheadError(
                f"config.json: {theirs} {quoted(value)} is not an activation that clearhead computes"
                f"{near(value, ACTIVATIONS_IN)}"
            )
        return ACTIVATIONS_IN[value]

    return Field(theirs, ours, default, read, lambda value: ACTIVATIONS_OUT[value])


@dataclass(frozen=True)
class Fields:
    """A family's table: what maps, what must have one value (`fixed`), and what is ignored beside the common list."""

    table: tuple[Field, ...]
    fixed: Mapping[str, Any]
    ignored: frozenset[str] = frozenset()

    def read(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Our config's fields out of their config.json."""
        known = {field.theirs for field in self.table} | self.fixed.keys() | self.ignored | IGNORED
        for name, value in values.items():
            if name not in known:
                raise ClearheadError(
                    f"config.json: clearhead does not know the field {quoted(name)} ({shown(repr(value), 80)}); "
                    "it may change the arithmetic"
                )
            if name in self.fixed and value != self.fixed[name]:
                raise ClearheadError(
                    f"config.json: {name} = {shown(repr(value), 80)} is not supported, only {self.fixed[name]!r}"
                )
        return {field.ours: field.of(values) for field in self.table}

    def write(self, ours: Mapping[str, Any]) -> dict[str, Any]:
        """Their config.json's fields out of our config's."""
        return {field.theirs: field.write(ours[field.ours]) for field in self.table}
