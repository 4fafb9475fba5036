"""The non-linearities of the family, by the name that configurations use."""

from collections.abc import Callable
from functools import partial

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

OVERWRITING: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": torch.ops.aten.gelu_,
    "gelu-tanh": partial(torch.ops.aten.gelu_, approximate="tanh"),
    "relu": torch.relu_,
    "silu": partial(F.silu, inplace=True),
    "tanh": torch.tanh_,
}


def activate(name: str, x: Tensor, *, overwrite: bool = False) -> Tensor:
    """The non-linearity `name` of x; with `overwrite` the result may stand where x stood, if no gradient needs x."""
    keep = not overwrite or torch.is_grad_enabled() or torch.compiler.is_compiling()
    return (ACTIVATIONS if keep else OVERWRITING).get(name, ACTIVATIONS[name])(x)
