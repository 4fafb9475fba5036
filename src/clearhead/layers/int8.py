"""Weights in 8 bits: a quarter of the memory, and on a CPU several times the speed.

Each output channel (each row of a weight matrix or token table) is stored as whole numbers from -127 to 127 and one
scale. On a CPU the input rows are rounded the same way as they come, each by its own largest value, so a row's answer
does not depend on its neighbours, and the product is one of whole numbers. Elsewhere the weights are widened again
for each product: that saves memory, not time.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import ClearheadError
from .embeddings import SharedTokens, TokenEmbedding

LARGEST = 127
ROUND, GAP = 1024, 64  # 32 rows of 2,048 columns: 336 us without gaps, 194 with them


def rounded(rows: Tensor) -> tuple[Tensor, Tensor]:
    """rows (N,K) -> whole numbers (N,K) in 8 bits and scales (N,1), so that numbers * scales is nearly rows."""
    scales = rows.abs().amax(-1, keepdim=True).float().clamp_(min=torch.finfo(torch.float32).tiny).div_(LARGEST)
    return (rows / scales).round_().to(torch.int8), scales


def product(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None) -> Tensor:
    """x (..., K) times weight^T (K,N) in 8 bits, scale (N,) -> (..., N) in the type of x."""
    if x.device.type != "cpu":
        wide = F.linear(x, weight.to(x.dtype)) * scale.to(x.dtype)
        return wide if bias is None else wide + bias
    numbers, row_scale = rounded(x.reshape(-1, x.shape[-1]))
    sums = torch._int_mm(numbers, weight.t()).float().mul_(scale)  # pyright: ignore[reportPrivateImportUsage]
    out = sums.mul_(row_scale) if bias is None else torch.addcmul(bias.float(), sums, row_scale)
    return out.view(*x.shape[:-1], -1).to(x.dtype)


def spaced(numbers: Tensor) -> Tensor:
    """The same matrix with a gap behind every row, where rows of a round length would fall on the same cache lines."""
    columns = numbers.shape[1]
    return F.pad(numbers, (0, GAP))[:, :columns] if columns % ROUND == 0 else numbers


class Int8Linear(nn.Module):
    """nn.Linear with its weight in 8 bits."""

    weight: Tensor
    scale: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        numbers, scales = rounded(linear.weight.detach())
        self.register_buffer("weight", spaced(numbers))
        self.register_buffer("scale", scales[:, 0])
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        return product(x, self.weight, self.scale, self.bias)

    def part(self, x: Tensor, outputs: slice) -> Tensor:
        """Some of the outputs alone."""
        return product(x, self.weight[outputs], self.scale[outputs], None if self.bias is None else self.bias[outputs])


class Int8Tokens(nn.Module):
    """A token table with its rows in 8 bits, as an embedding and as a head."""

    weight: Tensor
    scale: Tensor

    def __init__(self, tokens: TokenEmbedding) -> None:
        super().__init__()
        self.dtype = tokens.weight.dtype
        numbers, scales = rounded(tokens.weight.detach())
        self.register_buffer("weight", numbers)
        self.register_buffer("scale", scales[:, 0])

    def forward(self, ids: Tensor) -> Tensor:
        return (self.weight[ids] * self.scale[ids][..., None]).to(self.dtype)

    def logits(self, hidden: Tensor, bias: Tensor | None = None, uncut: bool = False) -> Tensor:
        """`uncut` asks for the columns of padding, and here is none."""
        return product(hidden, self.weight, self.scale, bias)


def quantise(model: nn.Module) -> nn.Module:
    """Every linear layer and token table of a model in 8 bits, in place; norms, positions and biases stay as is."""
    if any(isinstance(module, Int8Linear | Int8Tokens) for module in model.modules()):
        raise ClearheadError("the model's weights are in 8 bits already")
    tables: dict[nn.Module, Int8Tokens] = {}
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, Int8Linear(child))
            elif isinstance(child, TokenEmbedding) and not isinstance(child, SharedTokens):
                tables[child] = Int8Tokens(child)
                setattr(parent, name, tables[child])
    for module in model.modules():
        if isinstance(module, SharedTokens):
            owner = module.owner[0]
            module.owner = (tables.get(owner, owner),)
    return model.eval()


def bytes_of(model: nn.Module) -> int:
    """What a model's weights and tables take, whatever their type."""
    return sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
