"""The table of a GPT: the decoder alone, and the next token."""

from ...models.gpt import GPT
from ..schema import Node, Step
from .block import blocks, last_norm, stack_result
from .head import words, writing_head
from .making import Maker, Part
from .source import tapped
from .text_input import text_input

WITHOUT = {
    "rotary": "no position rows are added: queries and keys are turned instead",
    "none": "no positions: the paper adds sines and cosines",
}


def parts(make: Maker) -> list[Part]:
    c = make.model.config
    begin = text_input(make, "input", "tokens", c.positions, without=WITHOUT.get(c.positions))
    return [begin, *blocks(make, "decoder", "tokens"), _head(make)]


def _head(make: Maker) -> Part:
    c = make.model.config
    x = stack_result(make, "decoder", "tokens")
    weight = "weight:input.tokens.T" if c.tied else "weight:output"
    logits = words(make, "head", x, weight, tied=c.tied, tap=tapped(GPT.head, "logits"))
    steps: list[Step] = writing_head(make, last_norm(make, "decoder", "head", "tokens"), logits)
    return Part(Node(id="head", title="Next token", shape=f"{c.width} → {c.vocab}", part="head"), steps)
