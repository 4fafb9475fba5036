"""A block and a stack as parts: attention, cross-attention, feed-forward, each with its residual and its norm.

The order is the one of the computation: pre-norm norms before the layer, post-norm behind the sum.
"""

from collections.abc import Callable, Iterable

from ...layers import Block, CompactBlock, PreNormBlock
from ..schema import Matrix, Node, Step
from .attention import Looking, attention
from .feed_forward import feed_forward
from .making import Column, Maker, Of, Part, renamed, shape_of
from .norm import norm
from .source import tapped
from .stream import block_gives, block_of, stack_gives, stack_of

Layer = Callable[[str, Matrix], list[Step]]

BEFORE = "the norm stands before the layer: the paper's stands behind the sum"
NO_ENCODER = "no encoder, so no cross-attention follows: the paper's decoder has one"
THROUGH = "the layer's result is added to the normed rows: the paper adds it to what came in"
LAST_NORM = "one more norm behind the last block: the paper has none"


def blocks(
    make: Maker, name: str, rows: Of, *, column: Column = None, memory: Matrix | None = None, bias: str | None = None
) -> list[Part]:
    """Every block of a stack.

    memory  what cross-attention looks at; bias: the key of what is added to the scores of self-attention
    """
    numbers = range(len(stack_of(make.model, name).blocks))
    return [block(make, name, number, rows, column=column, memory=memory, bias=bias) for number in numbers]


def stack_result(make: Maker, name: str, rows: Of, called: str | None = None) -> Matrix:
    """What stands behind a stack, N where a norm made it."""
    own = "X" if stack_of(make.model, name).norm is None else "N"
    return make.site(stack_gives(make.model, name), called or own, f"what the {name} gives", rows)


def last_norm(make: Maker, name: str, part: str, rows: Of) -> list[Step]:
    """The norm behind a stack, as a step of any part; none where the stack has none."""
    module = stack_of(make.model, name)
    if module.norm is None:
        return []
    last = block_gives(make.model, f"{name}.blocks.{len(module.blocks) - 1}")
    x = make.site(last, "X", "what the last block gives", rows)
    told = f"one more norm stands behind the {name}'s last block"
    return [norm(make, part, f"{name}.norm", x, "N", title="Last norm", announced=told, departs=[LAST_NORM])]


def norm_part(make: Maker, name: str, rows: Of, column: Column) -> list[Part]:
    """The norm behind a stack as a part of its own."""
    part = f"{name}.norm"
    steps = last_norm(make, name, part, rows)
    return [Part(_node(part, "Last norm", shape_of(step.result), column), [step]) for step in steps]


def block(
    make: Maker, stack_name: str, number: int, rows: Of, *, column: Column, memory: Matrix | None, bias: str | None
) -> Part:
    path, at = f"{stack_name}.blocks.{number}", f"{stack_name}.{number}"
    module = block_of(make.model, path)
    x = make.site(f"{path}.input", "X", "what comes into the block", rows)

    def look(part: str, read: Matrix) -> list[Step]:
        return attention(make, Looking(part, f"{path}.attention", read, read, bias))

    def look_across(part: str, read: Matrix) -> list[Step]:
        assert memory is not None
        return attention(make, Looking(part, f"{path}.cross", read, memory))

    def widen(part: str, read: Matrix) -> list[Step]:
        return feed_forward(make, part, f"{path}.feed_forward", read)

    alone = NO_ENCODER if module.attention.causal and module.cross is None else None
    layers: list[tuple[str, str, Layer, str | None]] = [("attention", "Attention", look, alone)]
    if module.cross is not None:
        layers.append(("cross", "Cross-attention", look_across, None))
    layers.append(("feed_forward", "Feed-forward", widen, None))
    steps: list[Step] = []
    for name, _, layer, departs in layers:
        steps += around(make, module, f"{at}.{name}", f"{path}.{name}", x, layer, [departs])
        x = steps[-1].result
    shapes = {"feed_forward": _widths(module)}
    nodes = [
        _node(f"{at}.{name}", title, shapes.get(name) or _heads(module, name), column) for name, title, _, _ in layers
    ]
    node = Node(id=at, title=f"Block {number + 1}", shape=shape_of(x), column=column, parts=nodes)
    return Part(node, steps)


def around(
    make: Maker, module: Block, part: str, path: str, x: Matrix, layer: Layer, departs: Iterable[str | None]
) -> list[Step]:
    """A layer with its residual, and its norm on the side where this kind of block has it."""
    site = f"{path.rpartition('.')[0]}.after_{path.rpartition('.')[2]}"
    onward = x.name + "'"
    if isinstance(module, PreNormBlock):
        told, through = "the next layer's norm comes first", _norms_the_stream(module, path)
        more = [BEFORE, THROUGH if through else None]
        normed = norm(make, part, f"{path}_norm", x, "N", title="Norm before the layer", announced=told, departs=more)
        steps = [normed, *layer(part, normed.result)]
        before = normed.result if through else x
        return [*steps, _residual(make, part, site, before, steps[-1].result, onward, departs)]
    steps = layer(part, x)
    added = _residual(make, part, site, x, steps[-1].result, "R", departs)
    told = "the sum is normed"
    return [
        *steps,
        added,
        norm(make, part, f"{path}_norm", added.result, onward, title="Norm behind the sum", announced=told),
    ]


def _norms_the_stream(module: Block, path: str) -> bool:
    """Whether what comes in goes on normed, and is not only read so: see CompactBlock."""
    return isinstance(module, CompactBlock) and not path.endswith(".attention")


def _residual(
    make: Maker, part: str, site: str, x: Matrix, change: Matrix, name: str, departs: Iterable[str | None]
) -> Step:
    return make.step(
        part,
        "residual",
        short="+ residual",
        title="Residual: before, plus what was added",
        announced="what the layer found is added to what came in",
        formula=f"{name} = {x.name} + {change.name}",
        says="What the layer found is added to what came in, cell by cell. "
        "So a layer only has to say what should change, and nothing that came in is lost on the way.",
        departs=departs,
        operation="add",
        operands=[renamed(x, x.name, "before"), renamed(change, change.name, "what was added")],
        result=make.site(site, name, "after", x.rows.of),
        code=tapped(Block, site),
    )


def _node(part: str, title: str, shape: str, column: Column) -> Node:
    return Node(id=part, title=title, shape=shape, column=column, part=part)


def _heads(module: Block, name: str) -> str:
    count = getattr(module, name).heads.count
    return f"{count} head{'s' if count > 1 else ''}"


def _widths(module: Block) -> str:
    down = module.feed_forward.down
    return f"{down.out_features} → {down.in_features} → {down.out_features}"  # pyright: ignore[reportAttributeAccessIssue]
