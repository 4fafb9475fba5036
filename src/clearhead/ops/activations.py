"""The non-linearities of the family, by the name that configurations use."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU by its tanh formula (GPT-2). When compiled it is x * sigmoid(2u), the same function with one exp."""
    if not torch.compiler.is_compiling():
        return F.gelu(x, approximate="tanh")
    u = x.to(torch.promote_types(x.dtype, torch.float32))
    return (u * torch.sigmoid(1.5957691216057308 * (u + 0.044715 * u * u * u))).to(x.dtype)


def quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu-tanh": gelu_tanh,
    "quick-gelu": quick_gelu,
    "relu": F.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
}
