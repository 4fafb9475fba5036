"""GPT: the decoder alone, next word one by one.

Papers: Radford et al. 2018 (GPT, post-norm), Radford et al. 2019 (GPT-2, pre-norm), Brown et al. 2020 (GPT-3).
Departures from Vaswani et al. 2017: no encoder and no cross-attention, learned positions, GELU by its tanh formula, the
head tied to the embedding; from GPT-2 on norms stand before their layers and one more behind the last.
GPT-3 alternates dense and locally banded layers without publishing the band: ours is 256 tokens on every second layer.
"""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from ..errors import ClearheadError
from ..layers import (
    BLOCKS,
    Block,
    Cache,
    FeedForward,
    FixedPositions,
    Heads,
    LayerNorm,
    LearnedPositions,
    Pass,
    Rotary,
    SelfAttention,
    Stack,
    State,
    TextInput,
    TokenEmbedding,
    VocabularyHead,
    last_rows,
)
from ..ops import ACTIVATIONS, init, masks, positions
from ..trace import tap
from .base import Config, Family, WritingModel

POSITIONS = ("learned", "sinusoidal", "rotary", "none")


@dataclass(frozen=True, kw_only=True)
class GPTConfig(Config):
    """ff is 4 x width, head_width is width / heads, value_width is head_width and kv_heads is heads unless given.

    norm         "pre" (GPT-2) or "post" (GPT); final_norm: one more norm behind the last block
    band         every second layer looks only at the last `band` tokens (GPT-3)
    layer_scaled scores are divided by the layer's number too (Hugging Face's scale_attn_by_inverse_layer_idx)
    """

    vocab: int = 50257
    context: int = 1024
    width: int = 768
    layers: int = 12
    heads: int = 12
    ff: int | None = None
    head_width: int | None = None
    value_width: int | None = None
    kv_heads: int | None = None
    activation: str = "gelu-tanh"
    norm: str = "pre"
    norm_eps: float = 1e-5
    final_norm: bool = True
    positions: str = "learned"
    tied: bool = True
    band: int | None = None
    scores_scaled: bool = True
    layer_scaled: bool = False
    dropout: float = 0.1
    attention_dropout: float = 0.1
    embedding_dropout: float = 0.1
    init_std: float = 0.02

    def check(self) -> None:
        self.require_sizes("vocab", "context", "width", "layers", "heads")
        self.require_sizes(
            *(n for n in ("ff", "head_width", "value_width", "kv_heads", "band") if getattr(self, n) is not None)
        )
        self.require_probabilities("dropout", "attention_dropout", "embedding_dropout")
        self.require_choice("activation", ACTIVATIONS)
        self.require_choice("norm", BLOCKS)
        self.require_choice("positions", POSITIONS)
        divides = self.head_width is not None or self.width % self.heads == 0
        self.require(
            divides, f"{self.heads} heads don't divide a width of {self.width}: change one, or give head_width"
        )
        kv = self.kv_heads or self.heads
        self.require(self.heads % kv == 0, f"{kv} key/value heads don't divide {self.heads} heads")
        odd = self.positions == "rotary" and self.head_split.key % 2
        self.require(not odd, f"rotary positions need an even head_width, not {self.head_split.key}")
        self.require(self.norm_eps > 0, f"norm_eps must be above 0, not {self.norm_eps}")

    @property
    def head_split(self) -> Heads:
        return Heads.of(self.width, self.heads, key=self.head_width, value=self.value_width, kv_count=self.kv_heads)


class GPT(WritingModel):
    family = "gpt"
    config: GPTConfig

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        size = config.context, config.width
        table = {
            "learned": lambda: LearnedPositions(*size),
            "sinusoidal": lambda: FixedPositions(*size, lambda: positions.sinusoidal(*size)),
        }
        at = table[config.positions]() if config.positions in table else None
        self.input = TextInput(TokenEmbedding(config.vocab, config.width), at, dropout=config.embedding_dropout)
        self.decoder = Stack(
            (self._block(layer) for layer in range(config.layers)), self._norm() if config.final_norm else None
        )
        self.output = None if config.tied else VocabularyHead(config.width, config.vocab, bias=False)

    def _norm(self) -> nn.Module:
        return LayerNorm(self.config.width, eps=self.config.norm_eps)

    def _block(self, layer: int) -> Block:
        c = self.config
        scale = c.head_split.key**-0.5 if c.scores_scaled else 1.0
        attention = SelfAttention(
            c.width,
            c.head_split,
            causal=True,
            window=c.band if layer % 2 else None,
            scale=scale / (layer + 1) if c.layer_scaled else scale,
            dropout=c.attention_dropout,
            rotary=Rotary(c.head_split.key) if c.positions == "rotary" else None,
        )
        feed_forward = FeedForward(c.width, c.ff or 4 * c.width, c.activation)
        return BLOCKS[c.norm](attention, feed_forward, self._norm, dropout=c.dropout)

    def hidden(self, ids: Tensor, lengths: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """ids (B,L) -> (B,L,width). `lengths` (B,) are the rows' true lengths when some are padded at their right.

        With a cache, ids are the tokens that come next in each row: they join it.
        """
        count = ids.shape[1]
        self.check_room(count - 1 + (0 if cache is None else cache.used))
        if cache is None:
            mask = None if lengths is None else masks.padding(lengths, count)
            return self.decoder(self.input(ids), Pass(mask=mask))
        cache.begin(count)
        x = self._continued(ids, cache)
        cache.advance(count, lengths)
        return x

    def _continued(self, ids: Tensor, cache: Cache) -> Tensor:
        at = cache.positions(ids.shape[1])
        return self.decoder(self.input(ids, at), Pass(mask=cache.mask(ids.shape[1]), positions=at, cache=cache))

    def head(self, hidden: Tensor, uncut: bool = False) -> Tensor:
        """(..., width) -> logits (..., vocab); `uncut`: with the padding of a GPU's product, which is -inf."""
        if self.output is None:
            return tap("logits", self.input.tokens.logits(hidden, None, uncut))
        return tap("logits", self.output(hidden, uncut) if uncut else self.output(hidden))  # 8 bits are never uncut

    def start(
        self,
        ids: Tensor,
        lengths: Tensor | None = None,
        *,
        room: int | None = None,
        bucket: int | None = None,
        cache: Cache | None = None,
    ) -> State:
        """Read the prompts (B,L); the state holds what may come next. `room` is for how many tokens in all.

        `cache` is an empty one to write into, of that room; a new one is made unless given.
        """
        cache = self.new_cache(len(ids), room, bucket) if cache is None else cache
        return State(cache, self.head(last_rows(self.hidden(ids, lengths, cache), lengths)))

    def next_logits(self, tokens: Tensor, state: State) -> Tensor:
        return self.head(self._continued(tokens[:, None], state.cache)[:, 0])

    def new_cache(self, batch: int, size: int | None = None, bucket: int | None = None) -> Cache:
        """An empty cache for `batch` rows of up to `size` tokens (the context, unless given)."""
        c, heads = self.config, self.config.head_split
        room, widths = min(size or c.context, c.context), (heads.key, heads.value)
        return Cache.empty(c.layers, batch, room, heads.kv_count, widths, self.device, self.dtype, bucket)

    def check_room(self, used: int) -> None:
        if used >= self.config.context:
            raise ClearheadError(
                f"{used + 1} tokens don't fit the model's context of {self.config.context}: shorten the text"
            )

    def initialise(self, random: Generator | None = None) -> None:
        """GPT's code: normal. GPT-2's: positions half as wide, what joins the residual stream / sqrt(2 layers)."""
        std = self.config.init_std
        pre = self.config.norm == "pre"
        residual = std / math.sqrt(2 * self.config.layers) if pre else std
        for name, weight in self.named_parameters():
            if name.endswith("bias"):
                init.constant(weight, 0.0)
            elif "norm" in name:
                init.constant(weight, 1.0)
            elif name.endswith(("out.weight", "down.weight")):
                init.normal(weight, residual, random)
            else:
                init.normal(weight, std / 2 if pre and "positions" in name else std, random)

    def example(self, batch: int = 2, random: Generator | None = None) -> tuple[Tensor, ...]:
        length = min(self.config.context, 12)
        return (torch.randint(self.config.vocab, (batch, length), generator=random).to(self.device),)


SIZES = {
    "gpt2": GPTConfig(),
    "gpt2-medium": GPTConfig(width=1024, layers=24, heads=16),
    "gpt2-large": GPTConfig(width=1280, layers=36, heads=20),
    "gpt2-xl": GPTConfig(width=1600, layers=48, heads=25),
    "gpt-nano": GPTConfig(
        vocab=3, context=11, width=48, layers=3, heads=3, dropout=0, attention_dropout=0, embedding_dropout=0
    ),
    "gpt1": GPTConfig(vocab=40478, context=512, norm="post", final_norm=False),
    "gpt3": GPTConfig(context=2048, width=12288, layers=96, heads=96, band=256),
    "deck": GPTConfig(
        vocab=30,
        context=16,
        width=10,
        layers=1,
        heads=1,
        head_width=2,
        norm="post",
        final_norm=False,
        positions="sinusoidal",
        activation="relu",
        dropout=0,
        attention_dropout=0,
        embedding_dropout=0,
        init_std=0.3,  # about 1/sqrt(width): the usual .02 would leave ten features flat
    ),
}

PAPER = {
    "gpt2": "117M",
    "gpt2-medium": "345M",
    "gpt2-large": "762M",
    "gpt2-xl": "1542M",
    "gpt1": "117M",
    "gpt3": "175B",
}

FAMILY = Family(
    name="gpt",
    config=GPTConfig,
    model=GPT,
    sizes=SIZES,
    shrunken=GPTConfig(
        vocab=101, context=16, width=24, layers=2, heads=3, dropout=0, attention_dropout=0, embedding_dropout=0
    ),
    paper=PAPER,
)
