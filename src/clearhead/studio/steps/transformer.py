"""The table of a Transformer: an encoder, a decoder that looks at it, and the next word of the target."""

from ...models.transformer import Transformer
from ..schema import Node
from .block import blocks, last_norm, norm_part, stack_result
from .head import words, writing_head
from .making import Maker, Part
from .source import tapped
from .text_input import text_input


def parts(make: Maker) -> list[Part]:
    c = make.model.config
    source = text_input(make, "source", "source", c.positions, column="encoder", half_split=c.half_split)
    target = text_input(make, "target", "target", c.positions, column="decoder", half_split=c.half_split)
    memory = stack_result(make, "encoder", "source", "Z")
    encoder = [*blocks(make, "encoder", "source", column="encoder"), *norm_part(make, "encoder", "source", "encoder")]
    decoder = blocks(make, "decoder", "target", column="decoder", memory=memory)
    return [source, *encoder, target, *decoder, _head(make)]


def _head(make: Maker) -> Part:
    c = make.model.config
    x = stack_result(make, "decoder", "target")
    bias = "weight:output_bias" if c.output_bias else None
    tap = tapped(Transformer.head, "logits")
    logits = words(make, "head", x, "weight:output.T", tied=c.tied != "none", tap=tap, bias=bias)
    steps = writing_head(make, last_norm(make, "decoder", "head", "target"), logits)
    shape = f"{c.width} → {c.target_vocab or c.vocab}"
    return Part(Node(id="head", title="Next token", shape=shape, column="decoder", part="head"), steps)
