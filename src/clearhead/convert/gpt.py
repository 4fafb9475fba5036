"""GPT-2 and GPT as Hugging Face keeps them: `GPT2LMHeadModel` and `OpenAIGPTLMHeadModel`."""

from ..models.gpt import GPTConfig
from .fields import Field, Fields, activation
from .format import Format
from .rules import Dialect, Rule, each_layer, same, transposed, with_biases

END_OF_TEXT = 50256

_SHARED = (
    Field("n_embd", "width", 768),
    Field("n_layer", "layers", 12),
    Field("n_head", "heads", 12),
    Field("resid_pdrop", "dropout", 0.1),
    Field("attn_pdrop", "attention_dropout", 0.1),
    Field("embd_pdrop", "embedding_dropout", 0.1),
    Field("layer_norm_epsilon", "norm_eps", 1e-5),
    Field("tie_word_embeddings", "tied", True),
    Field("initializer_range", "init_std", 0.02),
)

GPT2_FIELDS = Fields(
    table=(
        Field("vocab_size", "vocab", 50257),
        Field("n_positions", "context", 1024),
        Field("n_inner", "ff", None),
        activation("activation_function", "gelu_new"),
        Field("scale_attn_weights", "scores_scaled", True),
        Field("scale_attn_by_inverse_layer_idx", "layer_scaled", False),
        *_SHARED,
    ),
    fixed={
        "add_cross_attention": False,
        "is_decoder": False,
        "is_encoder_decoder": False,
        "pruned_heads": {},
        "chunk_size_feed_forward": 0,
    },
    ignored=frozenset({"n_ctx", "n_special", "predict_special_tokens", "reorder_and_upcast_attn"}),
)


def _afn(value: str) -> str:
    return {"gelu": "gelu_new", "swish": "silu"}.get(value, value)  # their "gelu" is the tanh formula here


_gpt1_activation = activation("afn", "gelu")
GPT1_FIELDS = Fields(
    table=(
        Field("vocab_size", "vocab", 40478),
        Field("n_positions", "context", 512),
        Field(
            "afn",
            "activation",
            "gelu",
            lambda v: _gpt1_activation.read(_afn(v)),
            lambda v: "gelu" if v == "gelu-tanh" else v,
        ),
        *_SHARED,
    ),
    fixed={"is_decoder": False, "is_encoder_decoder": False, "pruned_heads": {}, "chunk_size_feed_forward": 0},
    ignored=frozenset({"n_ctx", "n_special", "predict_special_tokens"}),
)

# What Hugging Face's forms can't say, with the only value they mean.
_UNSAYABLE = {"head_width": None, "value_width": None, "kv_heads": None, "positions": "learned", "band": None}


def _rules(config: GPTConfig, tokens: str, positions: str) -> list[Rule]:
    ours, theirs = "decoder.blocks.{}", "transformer.h.{}"
    block = [
        *with_biases(same, f"{ours}.attention_norm", f"{theirs}.ln_1"),
        *with_biases(transposed, f"{ours}.attention.qkv", f"{theirs}.attn.c_attn"),
        *with_biases(transposed, f"{ours}.attention.out", f"{theirs}.attn.c_proj"),
        *with_biases(same, f"{ours}.feed_forward_norm", f"{theirs}.ln_2"),
        *with_biases(transposed, f"{ours}.feed_forward.up", f"{theirs}.mlp.c_fc"),
        *with_biases(transposed, f"{ours}.feed_forward.down", f"{theirs}.mlp.c_proj"),
    ]
    tables = [
        same("input.tokens.weight", f"transformer.{tokens}.weight"),
        same("input.positions.weight", f"transformer.{positions}.weight"),
    ]
    final = with_biases(same, "decoder.norm", "transformer.ln_f") if config.final_norm else []
    head = [] if config.tied else [same("output.weight", "lm_head.weight")]
    return [*tables, *each_layer(block, config.layers), *final, *head]


def _dialect(config: GPTConfig, tokens: str, positions: str) -> Dialect:
    return Dialect(
        _rules(config, tokens, positions),
        prefixes=("transformer.",),
        leftovers=(r"(^|\.)h\.\d+\.attn\.(bias|masked_bias)$", r"(^|\.)position_ids$"),
        copies={"lm_head.weight": f"transformer.{tokens}.weight"} if config.tied else {},
    )


class GPT2Format(Format):
    model_type, family, architecture = "gpt2", "gpt", "GPT2LMHeadModel"

    def read_config(self, values: dict) -> GPTConfig:
        return GPTConfig(**GPT2_FIELDS.read(values))

    def unsayable(self, config: GPTConfig) -> str | None:
        return self.first_different(config, _UNSAYABLE | {"norm": "pre", "final_norm": True})

    def write_config(self, config: GPTConfig) -> dict:
        values = GPT2_FIELDS.write(config.to_dict())
        own_words = (
            config.vocab <= END_OF_TEXT
        )  # their form means GPT-2's own token unless it is told that there is none
        return values | ({"bos_token_id": None, "eos_token_id": None} if own_words else {})

    def dialect(self, config: GPTConfig) -> Dialect:
        return _dialect(config, "wte", "wpe")


class GPT1Format(Format):
    model_type, family, architecture = "openai-gpt", "gpt", "OpenAIGPTLMHeadModel"

    def read_config(self, values: dict) -> GPTConfig:
        return GPTConfig(**GPT1_FIELDS.read(values), norm="post", final_norm=False)

    def unsayable(self, config: GPTConfig) -> str | None:
        plain = {"norm": "post", "final_norm": False, "scores_scaled": True, "layer_scaled": False}
        if config.ff not in (None, 4 * config.width):
            return "ff"
        if config.activation not in ("gelu-tanh", "relu", "silu"):
            return "activation"
        return self.first_different(config, _UNSAYABLE | plain)

    def write_config(self, config: GPTConfig) -> dict:
        return GPT1_FIELDS.write(config.to_dict())

    def dialect(self, config: GPTConfig) -> Dialect:
        return _dialect(config, "tokens_embed", "positions_embed")
