"""The Transformer: an encoder reads the source, a decoder writes the target and looks at the source as it goes.

Paper: Vaswani et al. 2017. As published: post-norm, ReLU, sinusoidal positions, embeddings times sqrt(width), one table
for source, target and head, no norm behind the last block. Attention has biases, which the paper does not write.
Departures, each a field of the config: pre-norm (with a last norm on both sides, as everyone trains today), learned
positions, untied tables, and what Marian adds: sines before cosines, a bias on the logits.
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
    CrossAttention,
    Encoded,
    FeedForward,
    FixedPositions,
    Heads,
    LayerNorm,
    LearnedPositions,
    Pass,
    SelfAttention,
    SharedTokens,
    Stack,
    TextInput,
    TokenEmbedding,
)
from ..ops import ACTIVATIONS, init, masks, positions
from ..trace import tap
from .base import Config, EncoderDecoder, Family

POSITIONS = ("sinusoidal", "learned")
TIED = ("all", "decoder", "none")
LONGEST = 1 << 16  # a table of sinusoids is not in the file: no config may ask for more memory than a machine has


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Config):
    """The decoder's vocabulary, layers, heads and ff are the encoder's unless given; ff is 4 x width unless given.

    norm         "post" (as published) or "pre"; final_norm: one more norm behind each stack, for pre-norm unless given
    half_split   sinusoids with all sines before all cosines (Marian), not in turn
    tied         "all": source, target and head are one table; "decoder": target and head are; "none"
    output_bias  a bias on the logits (Marian)
    init_std     of the embeddings: 1/sqrt(width) unless given
    pad_token, start_token, end_token   what fills a row, begins a target and ends a text, where that is settled
    """

    vocab: int = 37000
    target_vocab: int | None = None
    context: int = 512
    width: int = 512
    layers: int = 6
    decoder_layers: int | None = None
    heads: int = 8
    decoder_heads: int | None = None
    ff: int | None = None
    decoder_ff: int | None = None
    activation: str = "relu"
    norm: str = "post"
    norm_eps: float = 1e-5
    final_norm: bool | None = None
    positions: str = "sinusoidal"
    half_split: bool = False
    embedding_scaled: bool = True
    tied: str = "all"
    output_bias: bool = False
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    init_std: float | None = None
    pad_token: int | None = None
    start_token: int | None = None
    end_token: int | None = None

    def check(self) -> None:
        self.require_sizes("vocab", "context", "width", "layers", "heads")
        self.require_sizes(*self._given("target_vocab", "decoder_layers", "decoder_heads", "ff", "decoder_ff"))
        self.require_probabilities("dropout", "attention_dropout", "activation_dropout")
        self.require_choice("activation", ACTIVATIONS)
        self.require_choice("norm", BLOCKS)
        self.require_choice("positions", POSITIONS)
        self.require_choice("tied", TIED)
        for name in self._given("norm_eps", "init_std"):
            value = getattr(self, name)
            self.require(isinstance(value, int | float) and value > 0, f"{name} must be above 0, not {value!r}")
        for heads in (self.heads, self.decoder_heads or self.heads):
            self.require(self.width % heads == 0, f"{heads} heads don't divide a width of {self.width}")
        self._check_tables()

    def _given(self, *names: str) -> list[str]:
        return [name for name in names if getattr(self, name) is not None]

    def _check_tables(self) -> None:
        target_vocab = self.target_vocab or self.vocab
        one_table = self.tied != "all" or target_vocab == self.vocab
        self.require(
            one_table, f"one table can't have {self.vocab} and {target_vocab} rows: give tied='decoder' or 'none'"
        )
        computed = self.positions == "sinusoidal"
        self.require(
            not computed or self.context <= LONGEST, f"sinusoids are computed for a context of up to {LONGEST:,} tokens"
        )
        for name, count in (("pad_token", self.vocab), ("start_token", target_vocab), ("end_token", target_vocab)):
            value = getattr(self, name)
            known = value is None or (type(value) is int and 0 <= value < count)
            self.require(known, f"{name} must be the number of a token, from 0 to {count - 1}, not {value!r}")

    @property
    def norms_last(self) -> bool:
        return self.norm == "pre" if self.final_norm is None else self.final_norm


class Transformer(EncoderDecoder):
    family = "transformer"
    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        c = self.config = config
        vocab, ff = c.target_vocab or c.vocab, c.ff or 4 * c.width
        self.source = self._input(TokenEmbedding(c.vocab, c.width))
        self.target = self._input(
            SharedTokens(self.source.tokens) if c.tied == "all" else TokenEmbedding(vocab, c.width)
        )
        self.encoder = self._stack(c.layers, c.heads, ff, decoder=False)
        self.decoder = self._stack(
            c.decoder_layers or c.layers, c.decoder_heads or c.heads, c.decoder_ff or ff, decoder=True
        )
        self.output = TokenEmbedding(vocab, c.width) if c.tied == "none" else SharedTokens(self.target.tokens)
        self.output_bias = nn.Parameter(torch.empty(vocab)) if c.output_bias else None

    def _input(self, tokens: TokenEmbedding) -> TextInput:
        c = self.config
        table = {
            "sinusoidal": lambda: FixedPositions(
                c.context, c.width, lambda: positions.sinusoidal(c.context, c.width, half_split=c.half_split)
            ),
            "learned": lambda: LearnedPositions(c.context, c.width),
        }
        scale = math.sqrt(c.width) if c.embedding_scaled else 1.0
        return TextInput(tokens, table[c.positions](), scale=scale, dropout=c.dropout)

    def _stack(self, layers: int, heads: int, ff: int, *, decoder: bool) -> Stack:
        blocks = (self._block(Heads.of(self.config.width, heads), ff, decoder) for _ in range(layers))
        return Stack(blocks, self._norm() if self.config.norms_last else None)

    def _block(self, heads: Heads, ff: int, decoder: bool) -> Block:
        c = self.config
        return BLOCKS[c.norm](
            SelfAttention(c.width, heads, causal=decoder, dropout=c.attention_dropout),
            FeedForward(c.width, ff, c.activation, dropout=c.activation_dropout),
            self._norm,
            cross=CrossAttention(c.width, heads, dropout=c.attention_dropout) if decoder else None,
            dropout=c.dropout,
        )

    def _norm(self) -> nn.Module:
        return LayerNorm(self.config.width, eps=self.config.norm_eps)

    def encode(self, source: Tensor, source_lengths: Tensor | None = None) -> Encoded:
        count = source.shape[1]
        self._check_length("source", count)
        mask = None if source_lengths is None else masks.padding(source_lengths, count)
        return Encoded(self.decoder.remember(self.encoder(self.source(source), Pass(mask=mask))), mask)

    def decoded(self, target: Tensor, encoded: Encoded, cache: Cache | None = None) -> Tensor:
        shared = Pass(memory=encoded.memory, memory_mask=encoded.mask)
        if cache is None:
            return self.decoder(self.target(target), shared)
        count = target.shape[1]
        shared.cache, shared.mask = cache, cache.mask(count)
        return self.decoder(self.target(target, cache.positions(count)), shared)

    def head(self, hidden: Tensor, uncut: bool = False) -> Tensor:
        """(..., width) -> logits (..., target vocabulary); `uncut`: with a GPU's padding behind them, which is -inf."""
        return tap("logits", self.output.logits(hidden, self.output_bias, uncut))

    def new_cache(self, batch: int, size: int | None = None, bucket: int | None = None) -> Cache:
        """An empty cache for the targets of `batch` rows, up to `size` tokens (the context, unless given)."""
        c, layers = self.config, len(self.decoder.blocks)
        heads = Heads.of(c.width, c.decoder_heads or c.heads)
        room, widths = min(size or c.context, c.context), (heads.key, heads.value)
        return Cache.empty(layers, batch, room, heads.kv_count, widths, self.device, self.dtype, bucket)

    def check_room(self, used: int) -> None:
        self._check_length("target", used + 1)

    def _check_length(self, side: str, count: int) -> None:
        if count > self.config.context:
            raise ClearheadError(
                f"a {side} of {count} tokens doesn't fit the model's context of {self.config.context}: shorten it"
            )

    @property
    def start_token(self) -> int | None:
        return self.config.start_token

    def initialise(self, random: Generator | None = None) -> None:
        """As the authors' code: Xavier (q, k, v each as if alone), tables normal with 1/sqrt(width), biases zero."""
        std = self.config.init_std or self.config.width**-0.5
        for name, weight in self.named_parameters():
            if name.endswith("bias"):
                init.constant(weight, 0.0)
            elif "norm" in name:
                init.constant(weight, 1.0)
            elif name.startswith(("source.", "target.", "output.")):
                init.normal(weight, std, random)
            else:
                init.xavier_uniform(weight, random, parts=3 if "qkv" in name else 1)

    def example(self, batch: int = 2, random: Generator | None = None) -> tuple[Tensor, ...]:
        c = self.config
        longest = min(c.context, 9), min(c.context, 7)
        sides = [
            torch.randint(vocab, (batch, length), generator=random)
            for vocab, length in zip((c.vocab, c.target_vocab or c.vocab), longest, strict=True)
        ]
        lengths = [torch.arange(length, length - batch, -1).clamp(min=1) for length in longest]
        return tuple(tensor.to(self.device) for tensor in (*sides, *lengths))


SIZES = {
    "transformer-base": TransformerConfig(),
    "transformer-big": TransformerConfig(width=1024, heads=16, dropout=0.3),
    "transformer-tiny": TransformerConfig(vocab=10000, width=128, layers=4, heads=4, ff=256),  # Multi30k's vocabulary
}

PAPER = {"transformer-base": "65M", "transformer-big": "213M"}

FAMILY = Family(
    name="transformer",
    config=TransformerConfig,
    model=Transformer,
    sizes=SIZES,
    shrunken=TransformerConfig(vocab=101, context=16, width=24, layers=2, heads=3, ff=40, norm="pre", dropout=0),
    paper=PAPER,
)
