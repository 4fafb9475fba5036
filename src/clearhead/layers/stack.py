"""A stack: N blocks, and a norm behind them where the family has one."""

from collections.abc import Iterable

from torch import Tensor, nn

from .block import Block, Pass


class Stack(nn.Module):
    def __init__(self, blocks: Iterable[Block], norm: nn.Module | None = None) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(blocks), norm

    def forward(self, x: Tensor, shared: Pass, rows: int | None = None) -> Tensor:
        """x (B,L,width) -> the same; with `rows` the last block answers for the first tokens alone."""
        last = len(self.blocks) - 1
        for layer, block in enumerate(self.blocks):
            x = block(x, shared, layer, rows if layer == last else None)
        return x if self.norm is None else self.norm(x)

    def remember(self, encoded: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The encoder's output as every block's cross-attention will see it: computed once a source."""
        return [block.cross.remember(encoded) for block in self.blocks]  # pyright: ignore
