"""The pointwise feed-forward layer: every token alone, up to `ff` features, a non-linearity, and down again."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops import activate
from ..ops.biased_gelu import GELUS, biased_gelu
from ..ops.kernels import has_kernel
from ..trace import recording, tap
from .dropout import dropped
from .linear import Linear, times

MANY = 32  # rows: 64 and more are measured; a single one the compiler sums up, GELU too; between them nobody looked


class FeedForward(nn.Module):
    """activation(x W_1 + b_1) W_2 + b_2."""

    def __init__(self, width: int, ff: int, activation: str, *, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.up, self.down = Linear(width, ff, bias), Linear(ff, width, bias)
        self.activation, self.dropout = activation, dropout

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return tap("output", times(self.down, self.features(x), scale))

    def features(self, x: Tensor) -> Tensor:
        """x (..., width) -> (..., ff): all but the way down."""
        if self._in_one_kernel(x):
            rows = torch.ops.aten._addmm_activation(self.up.bias, x.flatten(0, -2), self.up.weight.T, use_gelu=True)
            return rows.view(*x.shape[:-1], -1)
        if self._goes_back_in_one_kernel(x):
            x = biased_gelu(F.linear(x, self.up.weight), self.up.bias, self.activation)
        else:
            x = tap("expanded", self.up(x))  # the widest rows of a pass: one name, and one place where it can be
            x = tap("hidden", activate(self.activation, x, overwrite=not recording()))
        return dropped(x, self.dropout, self.training)

    def _in_one_kernel(self, x: Tensor) -> bool:
        """Whether product and GELU can be one kernel: a GPU's library has the tanh formula behind its product."""
        return (
            x.is_cuda
            and self.activation == "gelu-tanh"
            and type(self.up) is Linear
            and self.up.bias is not None
            and x.dtype == self.up.weight.dtype == torch.bfloat16
            and x.numel() > MANY * x.shape[-1]
            and not torch.is_grad_enabled()
            and not torch.is_autocast_enabled("cuda")
            and not recording()
            and not (self.dropout and self.training)
        )

    def _goes_back_in_one_kernel(self, x: Tensor) -> bool:
        """Whether the gradients of GELU's input and of the bias before it are made by a kernel of our own."""
        return (
            x.is_cuda
            and torch.compiler.is_compiling()
            and torch.is_grad_enabled()
            and self.activation in GELUS
            and type(self.up) is Linear
            and self.up.bias is not None
            and self.up.bias.requires_grad
            and has_kernel("gelu_kernel")
        )


class GatedFeedForward(nn.Module):
    """(activation(x W_gate) * x W_up) W_down: Shazeer 2020, as in T5 v1.1. Gate and up are one product."""

    def __init__(self, width: int, ff: int, activation: str, *, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.gate_up, self.down = Linear(width, 2 * ff, bias), Linear(ff, width, bias)
        self.activation, self.dropout = activation, dropout

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, -1)
        gate, up = tap("gate", gate), tap("expanded", up)
        x = tap("hidden", activate(self.activation, gate) * up)
        del gate, up
        return tap("output", times(self.down, dropped(x, self.dropout, self.training), scale))
