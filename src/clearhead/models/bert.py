"""BERT: the encoder alone, which reads a text from both sides and fills the words that were masked.

Paper: Devlin et al. 2019. Departures from Vaswani et al. 2017: no decoder, learned positions, a table that tells the
first sentence from the second, a norm behind the sum of the three tables, exact GELU, a pooler over [CLS].
MiniLM (Wang et al. 2020) is the same architecture, narrower, distilled from a larger one.
"""

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Generator, Tensor, nn

from ..errors import ClearheadError
from ..layers import (
    Block,
    FeedForward,
    Heads,
    LayerNorm,
    LearnedPositions,
    Linear,
    Pass,
    PostNormBlock,
    SelfAttention,
    Stack,
    TextInput,
    TokenEmbedding,
)
from ..layers.dropout import dropped
from ..ops import ACTIVATIONS, init, masks
from ..trace import tap
from .base import Config, Family, Model

# What stands behind the encoder, for each task.
PARTS: dict[str | None, tuple[str, ...]] = {
    None: ("pooler",),
    "fill": ("masked_words",),
    "pretrain": ("pooler", "masked_words", "next_sentence"),
    "next-sentence": ("pooler", "next_sentence"),
    "classify": ("pooler", "output"),
    "tag": ("output",),
    "answer": ("span",),
}
TASKS = tuple(task for task in PARTS if task is not None)
WITH_CLASSES = tuple(task for task, parts in PARTS.items() if "output" in parts)


@dataclass(frozen=True, kw_only=True)
class BERTConfig(Config):
    """ff is 4 x width and head_dropout is dropout unless given; segments is how many kinds of sentence there are.

    task  what the model is for, and so what calling it returns:
          None             hidden states (B,L,width) and the pooled [CLS] (B,width)
          "fill"           a score for every word at every place (B,L,vocab)
          "pretrain"       those, and whether the second sentence follows the first (B,2)
          "next-sentence"  the latter alone
          "classify"       num_classes scores for the text (B,num_classes); one class is regression
          "tag"            num_classes scores for every token (B,L,num_classes)
          "answer"         for every token how well an answer starts and how well it ends there (B,L,2)
    tied  the words' scores are products with the token table itself
    """

    vocab: int = 30522
    context: int = 512
    segments: int = 2
    width: int = 768
    layers: int = 12
    heads: int = 12
    ff: int | None = None
    activation: str = "gelu"
    norm_eps: float = 1e-12
    task: str | None = None
    num_classes: int | None = None
    tied: bool = True
    dropout: float = 0.1
    attention_dropout: float = 0.1
    head_dropout: float | None = None
    init_std: float = 0.02

    def check(self) -> None:
        self.require_sizes("vocab", "context", "segments", "width", "layers", "heads")
        self.require_sizes(*(name for name in ("ff", "num_classes") if getattr(self, name) is not None))
        self.require_probabilities("dropout", "attention_dropout")
        self.require_probabilities(*(["head_dropout"] if self.head_dropout is not None else []))
        self.require_choice("activation", ACTIVATIONS)
        self.require(self.width % self.heads == 0, f"{self.heads} heads don't divide a width of {self.width}")
        self.require(self.norm_eps > 0, f"norm_eps must be above 0, not {self.norm_eps}")
        if self.task is not None:
            self.require_choice("task", TASKS)
        if self.task in WITH_CLASSES:
            self.require(self.num_classes is not None, f"task '{self.task}' needs num_classes")
        else:
            self.require(self.num_classes is None, "num_classes goes with task 'classify' or 'tag' alone")

    def with_changes(self, **changes: Any) -> Self:
        """As everywhere; a change to a task without classes takes their number away."""
        if "task" in changes and changes["task"] not in WITH_CLASSES:
            changes = {"num_classes": None} | changes
        return super().with_changes(**changes)


class MaskedWords(nn.Module):
    """One more layer and a norm, then each row against the token table (or an own one), plus a bias for each word."""

    def __init__(self, config: BERTConfig) -> None:
        super().__init__()
        self.transform = Linear(config.width, config.width)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = LayerNorm(config.width, eps=config.norm_eps)
        self.table = None if config.tied else TokenEmbedding(config.vocab, config.width)
        self.bias = nn.Parameter(torch.empty(config.vocab))

    def forward(self, hidden: Tensor, tokens: TokenEmbedding, uncut: bool = False) -> Tensor:
        x = tap("projected", self.transform(hidden))
        x = self.norm(tap("hidden", self.activation(x)))
        return (tokens if self.table is None else self.table).logits(x, self.bias, uncut)


class BERT(Model):
    family = "bert"
    config: BERTConfig
    pooler: nn.Linear
    masked_words: MaskedWords
    next_sentence: nn.Linear
    output: nn.Linear
    span: nn.Linear

    def __init__(self, config: BERTConfig) -> None:
        super().__init__()
        c = self.config = config
        self.input = TextInput(
            TokenEmbedding(c.vocab, c.width),
            LearnedPositions(c.context, c.width),
            segments=TokenEmbedding(c.segments, c.width),
            norm=self._norm(),
            dropout=c.dropout,
        )
        self.encoder = Stack(self._block() for _ in range(c.layers))
        for part in PARTS[c.task]:
            self.add_module(part, self._part(part))
        self.head_dropout = c.dropout if c.head_dropout is None else c.head_dropout

    def _norm(self) -> nn.Module:
        return LayerNorm(self.config.width, eps=self.config.norm_eps)

    def _block(self) -> Block:
        c = self.config
        attention = SelfAttention(c.width, Heads.of(c.width, c.heads), dropout=c.attention_dropout)
        feed_forward = FeedForward(c.width, c.ff or 4 * c.width, c.activation)
        return PostNormBlock(attention, feed_forward, self._norm, dropout=c.dropout)

    def _part(self, name: str) -> nn.Module:
        if name == "masked_words":
            return MaskedWords(self.config)
        features = {"pooler": self.config.width, "output": self.config.num_classes}
        return Linear(self.config.width, features.get(name) or 2)

    def hidden(self, ids: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """ids (B,L) -> (B,L,width). `lengths` (B,) are the rows' true lengths when some are padded at their right.

        segments (B,L): 0 for tokens of the first sentence, 1 for the second; all 0 unless given.
        """
        count, context = ids.shape[1], self.config.context
        if count > context:
            raise ClearheadError(f"{count} tokens don't fit the model's context of {context}: shorten the text")
        mask = None if lengths is None else masks.padding(lengths, count)
        return self.encoder(self.input(ids, segments=segments), Pass(mask=mask))

    def head(self, hidden: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """(B,L,width) -> what the task answers, see BERTConfig."""
        match self.config.task:
            case None:
                return hidden, self.pooled(hidden)
            case "fill":
                return self._words(hidden)
            case "pretrain":
                return self._words(hidden), self.follows(self.pooled(hidden))
            case "next-sentence":
                return self.follows(self.pooled(hidden))
            case "classify":
                return self._classes(self.pooled(hidden))
            case "tag":
                return self._classes(hidden)
            case _:
                return tap("logits", self.span(hidden))

    def pooled(self, hidden: Tensor) -> Tensor:
        return tap("pooled", torch.tanh(self.pooler(hidden[:, 0])))

    def _words(self, hidden: Tensor) -> Tensor:
        return tap("logits", self.masked_words(hidden, self.input.tokens))

    def follows(self, pooled: Tensor) -> Tensor:
        return tap("next_sentence", self.next_sentence(pooled))

    def _classes(self, read: Tensor) -> Tensor:
        return tap("logits", self.output(dropped(read, self.head_dropout, self.training)))

    def initialise(self, random: Generator | None = None) -> None:
        for name, weight in self.named_parameters():
            self.fill(name, weight, random)

    def fill(self, name: str, weight: Tensor, random: Generator | None = None) -> None:
        """One weight as the authors' code does: a normal that is cut at two deviations, no bias, norms of one."""
        if name.endswith("bias"):
            init.constant(weight, 0.0)
        elif "norm" in name:
            init.constant(weight, 1.0)
        else:
            init.truncated_normal(weight, self.config.init_std, random)

    def example(self, batch: int = 2, random: Generator | None = None) -> tuple[Tensor, ...]:
        """ids, lengths (rows of several lengths) and segments (the second half of each row is the second sentence)."""
        size = min(self.config.context, 12)
        ids = torch.randint(self.config.vocab, (batch, size), generator=random)
        lengths = (size - torch.arange(batch) % 4).clamp(min=1)
        segments = (torch.arange(size) >= size // 2).long().clamp(max=self.config.segments - 1).expand(batch, size)
        return ids.to(self.device), lengths.to(self.device), segments.contiguous().to(self.device)


SIZES = {
    "bert-base": BERTConfig(),
    "bert-large": BERTConfig(width=1024, layers=24, heads=16),
    "minilm-l6": BERTConfig(width=384, layers=6),
}

PAPER = {"bert-base": "110M", "bert-large": "340M"}

FAMILY = Family(
    name="bert",
    config=BERTConfig,
    model=BERT,
    sizes=SIZES,
    shrunken=BERTConfig(
        vocab=101, context=16, width=24, layers=2, heads=3, task="pretrain", dropout=0, attention_dropout=0
    ),
    paper=PAPER,
)
