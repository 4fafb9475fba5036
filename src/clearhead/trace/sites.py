"""The catalogue of sites: every name a pass can show, per family. Names are a documented API (docs/SITES.md).

Shapes: B batch, L tokens, M keys, H heads, d width, d_k and d_v widths of a head, f feed-forward width, V vocabulary.
A `*` stands for a block's number.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Site:
    name: str
    shape: str
    meaning: str


def _attention(at: str, *, masked: bool = False, biased: bool = False) -> list[Site]:
    rows = [
        ("query", "B,H,L,d_k", "Q = X W_Q, split into heads"),
        ("key", "B,H,M,d_k", "K = X W_K, split into heads"),
        ("value", "B,H,M,d_v", "V = X W_V, split into heads"),
        ("scores", "B,H,L,M", "Q K^T: how well each query fits each key"),
        ("scaled", "B,H,L,M", "the scores times 1/sqrt(d_k) (T5: times 1)"),
        ("biased", "B,H,L,M", "the scaled scores plus the position bias"),
        ("masked", "B,H,L,M", "-inf where a query may not look"),
        ("weights", "B,H,L,M", "softmax over the keys: each row sums to 1"),
        ("output", "B,H,L,d_v", "the weighted values of each head"),
        ("concat", "B,L,H*d_v", "the heads side by side"),
        ("projected", "B,L,d", "the concatenation times W_O"),
    ]
    left_out = {"masked": not masked, "biased": not biased}
    return [Site(f"{at}.{name}", shape, meaning) for name, shape, meaning in rows if not left_out.get(name, False)]


def _cross(at: str) -> list[Site]:
    return [
        Site(f"{at}.cross_norm.normed", "B,L,d", "the norm around cross-attention"),
        *_attention(f"{at}.cross", masked=True),
        Site(f"{at}.after_cross", "B,L,d", "the residual: before plus what cross-attention added"),
    ]


def _block(
    at: str,
    *,
    masked: bool = False,
    biased: bool = False,
    gated: bool = False,
    cross: bool = False,
    second: str = "the residual: before plus what the feed-forward layer added",
) -> list[Site]:
    return [
        Site(f"{at}.input", "B,L,d", "what comes into the block"),
        Site(f"{at}.attention_norm.normed", "B,L,d", "the norm around attention (behind the sum in post-norm)"),
        *_attention(f"{at}.attention", masked=masked, biased=biased),
        Site(f"{at}.after_attention", "B,L,d", "the residual: input plus what attention added"),
        *(_cross(at) if cross else []),
        Site(f"{at}.feed_forward_norm.normed", "B,L,d", "the norm around the feed-forward layer"),
        *([Site(f"{at}.feed_forward.gate", "B,L,f", "X W_gate, before the non-linearity")] if gated else []),
        Site(f"{at}.feed_forward.expanded", "B,L,f", "X W_1 + b_1"),
        Site(f"{at}.feed_forward.hidden", "B,L,f", "after the non-linearity"),
        Site(f"{at}.feed_forward.output", "B,L,d", "times W_2, plus b_2"),
        Site(f"{at}.after_feed_forward", "B,L,d", second),
    ]


def _text(
    at: str, *, scaled: bool = False, positions: bool = True, segments: bool = False, norm: bool = False
) -> list[Site]:
    return [
        Site(f"{at}.ids", "B,L", "token numbers"),
        Site(f"{at}.embedded", "B,L,d", "the tokens' rows of the embedding table"),
        *([Site(f"{at}.scaled", "B,L,d", "the rows times sqrt(d)")] if scaled else []),
        *([Site(f"{at}.positions", "L,d", "the positions' rows")] if positions else []),
        *([Site(f"{at}.segments", "B,L,d", "the rows of the first or second sentence")] if segments else []),
        Site(f"{at}.summed", "B,L,d", "all of these added"),
        *([Site(f"{at}.norm.normed", "B,L,d", "the norm behind the sum")] if norm else []),
    ]


SITES: dict[str, list[Site]] = {
    "transformer": [
        *_text("source", scaled=True),
        *_block("encoder.blocks.*", masked=True),
        Site("encoder.norm.normed", "B,L,d", "the norm behind the encoder's last block (pre-norm)"),
        *_text("target", scaled=True),
        *_block("decoder.blocks.*", masked=True, cross=True),
        Site("decoder.norm.normed", "B,L,d", "the norm behind the decoder's last block (pre-norm)"),
        Site("logits", "B,L,V", "a score for every word of the target's vocabulary"),
    ],
    "gpt": [
        *_text("input"),
        *_block("decoder.blocks.*", masked=True),
        Site("decoder.norm.normed", "B,L,d", "the norm behind the last block"),
        Site("logits", "B,L,V", "a score for every word of the vocabulary"),
    ],
    "bert": [
        *_text("input", segments=True, norm=True),
        *_block("encoder.blocks.*", masked=True),
        Site("pooled", "B,d", "tanh of [CLS] times the pooler: the text as one vector"),
        Site("masked_words.projected", "B,L,d", "what the encoder gives, times one more matrix"),
        Site("masked_words.hidden", "B,L,d", "after the non-linearity"),
        Site("masked_words.norm.normed", "B,L,d", "the norm behind it"),
        Site("logits", "B,L,V", "a score for every word at every place, or for every class of the task"),
        Site("next_sentence", "B,2", "whether the second sentence follows the first"),
    ],
    "t5": [
        *_text("source", positions=False),
        *_block("encoder.blocks.*", masked=True, biased=True, gated=True),
        Site("encoder.norm.normed", "B,L,d", "the norm behind the encoder's last block"),
        *_text("target", positions=False),
        *_block("decoder.blocks.*", masked=True, biased=True, gated=True, cross=True),
        Site("decoder.norm.normed", "B,L,d", "the norm behind the decoder's last block"),
        Site("logits", "B,L,V", "a score for every word of the vocabulary"),
    ],
    "vit": [
        Site("input.image", "B,C,H,W", "the pixels, normalised"),
        Site("input.patches", "B,N,C*p*p", "the patches, each flattened"),
        Site("input.projected", "B,N,d", "each patch times the projection"),
        Site("input.tokens", "B,N+1,d", "[CLS] in front of the patches"),
        Site("input.positions", "N+1,d", "the positions' rows"),
        Site("input.summed", "B,N+1,d", "patches plus positions"),
        *_block("encoder.blocks.*"),
        Site("encoder.norm.normed", "B,N+1,d", "the norm behind the last block"),
        Site("pooled", "B,d", "what the head reads: [CLS], or the mean of the patches"),
        Site("logits", "B,classes", "a score for every class"),
    ],
}


# Models of a family whose input and pooling are other objects, by the name that their sizes begin with.
VARIANTS: dict[str, list[Site]] = {
    "cct": [
        Site("input.image", "B,C,H,W", "the pixels, normalised"),
        Site("input.windows", "B,H*W,C*9", "the 3 x 3 pixels around every pixel, each window flattened"),
        Site("input.convolved", "B,H*W,d", "each window times the projection: a convolution"),
        Site("input.rectified", "B,H*W,d", "nothing below zero is left"),
        Site("input.projected", "B,N,d", "the largest of 3 x 3 at every second pixel"),
        Site("input.positions", "N,d", "the positions' rows"),
        Site("input.summed", "B,N,d", "rows plus positions"),
        *_block("encoder.blocks.*", second="the residual: the normed rows plus what the feed-forward layer added"),
        Site("encoder.norm.normed", "B,N,d", "the norm behind the last block"),
        Site("pooling.scores", "B,N", "a learned score for every row"),
        Site("pooling.weights", "B,N", "softmax over the rows: how much of each goes into the mean"),
        Site("pooled", "B,d", "what the head reads: the mean with these weights"),
        Site("logits", "B,classes", "a score for every class"),
    ],
}


def sites_of(name: str, layers: int) -> list[str]:
    """Every catalogued site of a family's or variant's model of this many layers, block numbers written out."""
    numbers = {True: [str(n) for n in range(layers)], False: [""]}
    return [site.name.replace("*", n) for site in (SITES | VARIANTS)[name] for n in numbers["*" in site.name]]
