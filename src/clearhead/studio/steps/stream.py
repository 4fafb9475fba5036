"""Where the residual stream can be read: what a block's layers take in, and what a block or a stack gives on."""

from typing import TypeVar

from torch import nn

from ...errors import ClearheadError
from ...layers import Block, PreNormBlock, Stack
from ...models import Model

Kind = TypeVar("Kind", bound=nn.Module)


def attention_reads(model: Model, block: str) -> str:
    """The site that a block's self-attention takes its queries, keys and values from."""
    before = isinstance(model.get_submodule(block), PreNormBlock)
    return f"{block}.attention_norm.normed" if before else f"{block}.input"


def block_gives(model: Model, block: str) -> str:
    before = isinstance(model.get_submodule(block), PreNormBlock)
    return f"{block}.after_feed_forward" if before else f"{block}.feed_forward_norm.normed"


def stack_gives(model: Model, stack: str) -> str:
    """The site that stands behind a stack: its last norm, or else its last block."""
    module = stack_of(model, stack)
    if module.norm is not None:
        return f"{stack}.norm.normed"
    return block_gives(model, f"{stack}.blocks.{len(module.blocks) - 1}")


def stack_of(model: Model, stack: str) -> Stack:
    return part_of(model, stack, Stack)


def block_of(model: Model, block: str) -> Block:
    return part_of(model, block, Block)


def part_of(model: Model, path: str, kind: type[Kind]) -> Kind:
    """The module by that name; one of another kind is refused, as keys come from outside."""
    found = model.get_submodule(path)
    if not isinstance(found, kind):
        raise ClearheadError(f"'{path}' is a {type(found).__name__}, not a {kind.__name__}")
    return found
