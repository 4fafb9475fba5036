"""The table of a T5: distances in place of positions, and hidden states that are scaled before the head."""

from ...models.t5 import T5
from ..schema import Matrix, Node, Step
from .block import blocks, last_norm, norm_part, stack_result
from .derived import output_factor
from .head import words, writing_head
from .making import Maker, Part
from .source import code, tapped
from .text_input import text_input

WITHOUT = "no position rows are added: a number for each distance is added to the scores instead"


def parts(make: Maker) -> list[Part]:
    source = text_input(make, "source", "source", "none", column="encoder", without=WITHOUT)
    target = text_input(make, "target", "target", "none", column="decoder", without=WITHOUT)
    memory = stack_result(make, "encoder", "source", "Z")
    near, far = "derived:encoder.position_bias", "derived:decoder.position_bias"
    encoder = blocks(make, "encoder", "source", column="encoder", bias=near)
    encoder += norm_part(make, "encoder", "source", "encoder")
    decoder = blocks(make, "decoder", "target", column="decoder", memory=memory, bias=far)
    return [source, *encoder, target, *decoder, _head(make)]


def _head(make: Maker) -> Part:
    c = make.model.config
    x = stack_result(make, "decoder", "target")
    steps = last_norm(make, "decoder", "head", "target")
    if c.output_scaled:
        steps.append(_scaled(make, x))
        x = steps[-1].result
    weight = "weight:source.tokens.T" if c.tied else "weight:output"
    logits = words(make, "head", x, weight, tied=c.tied, tap=tapped(T5.head, "logits"))
    steps = writing_head(make, steps, logits)
    shape = f"{c.width} → {c.vocab}"
    return Part(Node(id="head", title="Next token", shape=shape, column="decoder", part="head"), steps)


def _scaled(make: Maker, x: Matrix) -> Step:
    return make.step(
        "head",
        "scaled",
        short="÷ √d",
        title="The rows divided by √d",
        announced="the rows are divided by √d",
        formula=rf"N' = \frac{{N}}{{\sqrt{{d}}}} = \frac{{N}}{{\sqrt{{{x.columns.size}}}}}",
        says="The head is the embedding table, whose rows are large in this model. "
        "So the hidden rows are made smaller before they meet it, else the scores would be too far apart.",
        departs=["the rows are scaled down here: the paper scales the embedding up instead"],
        operation="scale",
        operands=[x],
        factor=output_factor(make.model),
        result=make.matrix("derived:decoder.scaled", "N'", "the rows divided by √d", "target"),
        code=code(T5.head, "**-0.5"),
    )
