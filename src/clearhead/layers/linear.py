"""The linear layer, x W^T + b, by the library that does it fastest.

Where no gradient is asked for, large fp32 products on a CPU go to oneDNN: for the few rows of a decoding step it reads
the same weights up to twice as fast as the library behind torch's own call. Small ones stay, a call costs more there.

Where a single row is compiled for a GPU (a decoding step of one text), the bias is added apart: the compiler then makes
a sum over the inputs of the product, which fuses with what stands around it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LARGE = 1 << 18  # weights from which on oneDNN is ahead, measured


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (..., K), weight (N,K) -> (..., N)."""
    if _for_onednn(x, weight):
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    if bias is not None and for_a_sum(x):
        return F.linear(x, weight) + bias
    return F.linear(x, weight, bias)


class Linear(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


def times(layer: nn.Module, x: Tensor, factor: float) -> Tensor:
    """What a layer gives, times a factor. Of a plain one it is the weights that are multiplied: there are fewer."""
    if factor == 1.0:
        return layer(x)
    if type(layer) is not Linear:
        return layer(x) * factor
    return linear(x, layer.weight * factor, None if layer.bias is None else layer.bias * factor)


def _for_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and weight.numel() >= LARGE
        and x.dtype == weight.dtype == torch.float32
        and not torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
        and AVAILABLE
    )


def for_a_sum(x: Tensor) -> bool:
    """Whether x is a single row in a step that is compiled for a GPU."""
    return x.is_cuda and torch.compiler.is_compiling() and x.numel() == x.shape[-1] and not torch.is_grad_enabled()


AVAILABLE = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
