"""BERT as Hugging Face keeps it: `BertModel` and the classes that put a head on it."""

from typing import Any

from ..errors import ClearheadError, shown
from ..models.bert import PARTS, WITH_CLASSES, BERTConfig
from .fields import Field, Fields, activation
from .format import Format
from .rules import Dialect, Rule, each_layer, same, stacked, with_biases

ARCHITECTURES = {
    "BertModel": None,
    "BertForMaskedLM": "fill",
    "BertForPreTraining": "pretrain",
    "BertForNextSentencePrediction": "next-sentence",
    "BertForSequenceClassification": "classify",
    "BertForTokenClassification": "tag",
    "BertForQuestionAnswering": "answer",
}

FIELDS = Fields(
    table=(
        Field("vocab_size", "vocab", 30522),
        Field("max_position_embeddings", "context", 512),
        Field("type_vocab_size", "segments", 2),
        Field("hidden_size", "width", 768),
        Field("num_hidden_layers", "layers", 12),
        Field("num_attention_heads", "heads", 12),
        Field("intermediate_size", "ff", 3072),
        activation("hidden_act", "gelu"),
        Field("layer_norm_eps", "norm_eps", 1e-12),
        Field("tie_word_embeddings", "tied", True),
        Field("hidden_dropout_prob", "dropout", 0.1),
        Field("attention_probs_dropout_prob", "attention_dropout", 0.1),
        Field("classifier_dropout", "head_dropout", None),
        Field("initializer_range", "init_std", 0.02),
    ),
    fixed={
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "is_encoder_decoder": False,
        "add_cross_attention": False,
        "cross_attention_hidden_size": None,
        "tie_encoder_decoder": False,
        "pruned_heads": {},
        "chunk_size_feed_forward": 0,
        "directionality": "bidi",
        "pooler_type": "first_token_transform",
    },
    # Google's own configs describe a pooler that their code does not build either.
    ignored=frozenset({"pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head"}),
)

# What stands behind the encoder, under both names. Their `classifier` reads a text or a token: the task says which.
HEADS = {
    "pooler": with_biases(same, "pooler", "bert.pooler.dense"),
    "masked_words": [
        *with_biases(same, "masked_words.transform", "cls.predictions.transform.dense"),
        *with_biases(same, "masked_words.norm", "cls.predictions.transform.LayerNorm"),
    ],
    "next_sentence": with_biases(same, "next_sentence", "cls.seq_relationship"),
    "output": with_biases(same, "output", "classifier"),
    "span": with_biases(same, "span", "qa_outputs"),
}
TOKENS = "bert.embeddings.word_embeddings.weight"
WORDS = "cls.predictions"


class BERTFormat(Format):
    model_type, family, architecture = "bert", "bert", "BertModel"

    def read_config(self, values: dict) -> BERTConfig:
        task = _task(values.get("architectures"))
        classes = _classes(values)
        if task == "answer" and classes != 2:
            raise ClearheadError(f"config.json: span answers need 2 labels (start and end), not {classes}")
        config = BERTConfig(**FIELDS.read(values), task=task, num_classes=classes if task in WITH_CLASSES else None)
        return config.with_changes(ff=None) if config.ff == 4 * config.width else config

    def unsayable(self, config: BERTConfig) -> str | None:
        return None

    def write_config(self, config: BERTConfig) -> dict:
        name = next(name for name, task in ARCHITECTURES.items() if task == config.task)
        labels = {str(n): f"LABEL_{n}" for n in range(config.num_classes or 0)}
        named = {"id2label": labels, "label2id": {label: int(n) for n, label in labels.items()}} if labels else {}
        return (
            {"architectures": [name]} | FIELDS.write(config.to_dict() | {"ff": config.ff or 4 * config.width}) | named
        )

    def dialect(self, config: BERTConfig) -> Dialect:
        """BertModel's own files have no `bert.` in front. Other tasks' heads are read where a file has them."""
        headless = config.task is None
        parts = {part: [*rules, *_words(config, part)] for part, rules in HEADS.items()}
        own = [rule for part in PARTS[config.task] for rule in parts.pop(part)]
        rules, spare = [*_encoder(config), *own], [rule for rules in parts.values() for rule in rules]
        copies = {f"{WORDS}.decoder.weight": TOKENS, f"{WORDS}.decoder.bias": f"{WORDS}.bias"} if config.tied else {}
        old = [(r"LayerNorm\.gamma$", "LayerNorm.weight"), (r"LayerNorm\.beta$", "LayerNorm.bias")]
        return Dialect(
            [_bare(rule) for rule in rules] if headless else rules,
            prefixes=() if headless else ("bert.",),
            renames=(*old, *([(r"^bert\.", "")] if headless else [])),
            leftovers=(r"(^|\.)embeddings\.(position_ids|token_type_ids)$",),
            copies={copy: name.removeprefix("bert.") for copy, name in copies.items()} if headless else copies,
            optional=tuple(f"{part}." for part in HEADS),
            spare=spare,
        )


def _task(names: Any) -> str | None:
    """Files from before config.json named a class hold what any of them needs, and are read without a head."""
    if names is None:
        return None
    if not isinstance(names, list) or len(names) != 1 or names[0] not in list(ARCHITECTURES):
        raise ClearheadError(
            f"config.json: architectures {shown(repr(names), 80)} names no BERT that clearhead reads "
            f"({', '.join(ARCHITECTURES)})"
        )
    return ARCHITECTURES[names[0]]


def _classes(values: dict) -> Any:
    labels = values.get("id2label")
    if labels is not None and not isinstance(labels, dict):
        raise ClearheadError("config.json: id2label must be an object")
    return len(labels) if labels else values.get("num_labels", values.get("_num_labels", 2))


def _encoder(config: BERTConfig) -> list[Rule]:
    ours, theirs, start = "encoder.blocks.{}", "bert.encoder.layer.{}", "bert.embeddings"
    block = [
        *with_biases(
            stacked,
            f"{ours}.attention.qkv",
            *(f"{theirs}.attention.self.{name}" for name in ("query", "key", "value")),
        ),
        *with_biases(same, f"{ours}.attention.out", f"{theirs}.attention.output.dense"),
        *with_biases(same, f"{ours}.attention_norm", f"{theirs}.attention.output.LayerNorm"),
        *with_biases(same, f"{ours}.feed_forward.up", f"{theirs}.intermediate.dense"),
        *with_biases(same, f"{ours}.feed_forward.down", f"{theirs}.output.dense"),
        *with_biases(same, f"{ours}.feed_forward_norm", f"{theirs}.output.LayerNorm"),
    ]
    tables = [
        same("input.tokens.weight", TOKENS),
        same("input.positions.weight", f"{start}.position_embeddings.weight"),
        same("input.segments.weight", f"{start}.token_type_embeddings.weight"),
        *with_biases(same, "input.norm", f"{start}.LayerNorm"),
    ]
    return [*tables, *each_layer(block, config.layers)]


def _words(config: BERTConfig, part: str) -> list[Rule]:
    """The words' bias, and their table where it is not the tokens'. Untied, their form keeps the bias twice."""
    if part != "masked_words":
        return []
    if config.tied:
        return [same("masked_words.bias", f"{WORDS}.bias")]
    twice = (f"{WORDS}.decoder.bias", f"{WORDS}.bias")
    return [
        same("masked_words.table.weight", f"{WORDS}.decoder.weight"),
        Rule("masked_words.bias", twice, lambda parts: parts[0], lambda tensor: [tensor, tensor]),
    ]


def _bare(rule: Rule) -> Rule:
    return Rule(rule.ours, tuple(name.removeprefix("bert.") for name in rule.theirs), rule.read, rule.write)
