"""T5: every task as text to text, by an encoder-decoder whose positions are distances.

Papers: Raffel et al. 2020 (v1.0), Shazeer 2020 (the gated layer of v1.1). Departures from Vaswani et al. 2017: norms
before their layers and one behind each stack, root-mean-square norms, no biases, scores that are not scaled (queries
start smaller instead), and no positions in the input: a learned number for each distance and head is added to the
scores of self-attention, one table for all blocks of a stack. Heads together may be wider than the stream.
v1.0: ReLU, the head tied to the embedding, hidden states times 1/sqrt(width) before it. v1.1: gated GELU, a head of its
own, nothing scaled.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from ..layers import (
    Block,
    Cache,
    CrossAttention,
    Encoded,
    FeedForward,
    GatedFeedForward,
    Heads,
    Pass,
    PreNormBlock,
    RelativeBias,
    RMSNorm,
    SelfAttention,
    SharedTokens,
    Stack,
    TextInput,
    TokenEmbedding,
    VocabularyHead,
)
from ..layers.dropout import dropped
from ..ops import ACTIVATIONS, init, masks
from ..trace import tap
from .base import Config, EncoderDecoder, Family


@dataclass(frozen=True, kw_only=True)
class T5Config(Config):
    """The decoder has as many layers as the encoder unless decoder_layers is given.

    gated          activation(x W_gate) * x W_up in the feed-forward layers (v1.1), not activation(x W_up)
    buckets        how many numbers a head learns for distances; those from max_distance on share one
    tied           the head is the embedding table
    output_scaled  hidden states are multiplied by 1/sqrt(width) before the head
    init_factor    multiplies every standard deviation of the initialisation
    pad_token, start_token, end_token   what fills a row, begins a target and ends a text
    """

    vocab: int = 32128
    width: int = 512
    layers: int = 6
    decoder_layers: int | None = None
    heads: int = 8
    head_width: int = 64
    ff: int = 2048
    activation: str = "relu"
    gated: bool = False
    buckets: int = 32
    max_distance: int = 128
    norm_eps: float = 1e-6
    tied: bool = True
    output_scaled: bool = True
    dropout: float = 0.1
    init_factor: float = 1.0
    pad_token: int | None = 0
    start_token: int | None = 0
    end_token: int | None = 1

    def check(self) -> None:
        self.require_sizes("vocab", "width", "layers", "heads", "head_width", "ff", "buckets", "max_distance")
        self.require_sizes(*(["decoder_layers"] if self.decoder_layers is not None else []))
        self.require_probabilities("dropout")
        self.require_choice("activation", ACTIVATIONS)
        for name in ("norm_eps", "init_factor"):
            value = getattr(self, name)
            self.require(isinstance(value, int | float) and value > 0, f"{name} must be above 0, not {value!r}")
        self.require(self.buckets >= 4, f"distances to both sides need at least 4 buckets, not {self.buckets}")
        near = self.buckets // 2
        self.require(
            self.max_distance > near,
            f"{self.buckets} buckets hold distances up to {near} one by one: max_distance must be above that, "
            f"not {self.max_distance}",
        )
        for name in ("pad_token", "start_token", "end_token"):
            value = getattr(self, name)
            known = value is None or (type(value) is int and 0 <= value < self.vocab)
            self.require(known, f"{name} must be the number of a token, from 0 to {self.vocab - 1}, not {value!r}")

    @property
    def head_split(self) -> Heads:
        return Heads.of(self.width, self.heads, key=self.head_width)


class T5(EncoderDecoder):
    family = "t5"
    config: T5Config

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        c = self.config = config
        self.source = TextInput(TokenEmbedding(c.vocab, c.width), None, dropout=c.dropout)
        self.target = TextInput(SharedTokens(self.source.tokens), None, dropout=c.dropout)
        self.encoder_bias, self.decoder_bias = (
            RelativeBias(c.heads, buckets=c.buckets, max_distance=c.max_distance, bidirectional=both)
            for both in (True, False)
        )
        self.encoder = self._stack(c.layers, decoder=False)
        self.decoder = self._stack(c.decoder_layers or c.layers, decoder=True)
        self.output = None if c.tied else VocabularyHead(c.width, c.vocab, bias=False)

    def _stack(self, layers: int, *, decoder: bool) -> Stack:
        return Stack((self._block(decoder) for _ in range(layers)), self._norm())

    def _block(self, decoder: bool) -> Block:
        c = self.config
        plain = {"bias": False, "scale": 1.0, "dropout": c.dropout}
        feed_forward = (GatedFeedForward if c.gated else FeedForward)(
            c.width, c.ff, c.activation, bias=False, dropout=c.dropout
        )
        return PreNormBlock(
            SelfAttention(c.width, c.head_split, causal=decoder, **plain),
            feed_forward,
            self._norm,
            cross=CrossAttention(c.width, c.head_split, **plain) if decoder else None,
            dropout=c.dropout,
        )

    def _norm(self) -> nn.Module:
        return RMSNorm(self.config.width, eps=self.config.norm_eps)

    def encode(self, source: Tensor, source_lengths: Tensor | None = None) -> Encoded:
        count = source.shape[1]
        mask = None if source_lengths is None else masks.padding(source_lengths, count)
        x = self.encoder(self.source(source), Pass(mask=mask, bias=self.encoder_bias(count)))
        return Encoded(self.decoder.remember(dropped(x, self.config.dropout, self.training)), mask)

    def decoded(self, target: Tensor, encoded: Encoded, cache: Cache | None = None) -> Tensor:
        count = target.shape[1]
        shared = Pass(memory=encoded.memory, memory_mask=encoded.mask)
        if cache is None:
            shared.bias = self.decoder_bias(count)
        else:
            shared.cache, shared.mask = cache, cache.mask(count)
            shared.bias = self.decoder_bias(cache.seen, cache.positions(count))
        return dropped(self.decoder(self.target(target), shared), self.config.dropout, self.training)

    def head(self, hidden: Tensor, uncut: bool = False) -> Tensor:
        """(..., width) -> logits (..., vocab); `uncut`: with the padding of a GPU's product, which is -inf."""
        if self.config.output_scaled:
            hidden = hidden * self.config.width**-0.5
        if self.output is None:
            return tap("logits", self.source.tokens.logits(hidden, None, uncut))
        return tap("logits", self.output(hidden, uncut) if uncut else self.output(hidden))  # 8 bits are never uncut

    def new_cache(self, batch: int, size: int | None = None, bucket: int | None = None) -> Cache:
        """An empty cache for the targets of `batch` rows, with room for `size` tokens; it grows when they are more."""
        heads, layers = self.config.head_split, len(self.decoder.blocks)
        room, widths = size or 128, (heads.key, heads.value)
        return Cache.empty(layers, batch, room, heads.kv_count, widths, self.device, self.dtype, bucket)

    @property
    def start_token(self) -> int | None:
        return self.config.start_token

    def initialise(self, random: Generator | None = None) -> None:
        """As the authors' code: 1/sqrt(inputs) for every product, tables 1, queries smaller by sqrt(head_width)."""
        c = self.config
        for name, weight in self.named_parameters():
            if "norm" in name:
                init.constant(weight, c.init_factor)
            elif name.startswith("source"):
                init.normal(weight, c.init_factor, random)
            else:
                inputs = c.width if "bias" in name else weight.shape[1]
                init.normal(weight, c.init_factor * inputs**-0.5, random)
            if name.endswith(("qkv.weight", "query.weight")):
                with torch.no_grad():
                    weight[: c.heads * c.head_width] *= c.head_width**-0.5  # in place of the scale of the scores

    def example(self, batch: int = 2, random: Generator | None = None) -> tuple[Tensor, ...]:
        sides = [torch.randint(self.config.vocab, (batch, length), generator=random) for length in (9, 7)]
        lengths = [torch.arange(length, length - batch, -1).clamp(min=1) for length in (9, 7)]
        return tuple(tensor.to(self.device) for tensor in (*sides, *lengths))


_V1_1 = {"activation": "gelu-tanh", "gated": True, "tied": False, "output_scaled": False}

SIZES = {
    "t5-small": T5Config(),
    "t5-base": T5Config(width=768, layers=12, heads=12, ff=3072),
    "t5-large": T5Config(width=1024, layers=24, heads=16, ff=4096),
    "t5-3b": T5Config(width=1024, layers=24, heads=32, head_width=128, ff=16384),
    "t5-11b": T5Config(width=1024, layers=24, heads=128, head_width=128, ff=65536),
    "t5-v1.1-small": T5Config(layers=8, heads=6, ff=1024, **_V1_1),
    "t5-v1.1-base": T5Config(width=768, layers=12, heads=12, **_V1_1),
    "t5-v1.1-large": T5Config(width=1024, layers=24, heads=16, ff=2816, **_V1_1),
    "t5-v1.1-xl": T5Config(width=2048, layers=24, heads=32, ff=5120, **_V1_1),
    "t5-v1.1-xxl": T5Config(width=4096, layers=24, heads=64, ff=10240, **_V1_1),
}

PAPER = {"t5-small": "60M", "t5-base": "220M", "t5-large": "770M", "t5-3b": "3B", "t5-11b": "11B"}

FAMILY = Family(
    name="t5",
    config=T5Config,
    model=T5,
    sizes=SIZES,
    shrunken=T5Config(
        vocab=101, width=24, layers=2, heads=3, head_width=5, ff=40, buckets=8, max_distance=20, dropout=0, **_V1_1
    ),
    paper=PAPER,
)
