"""GELU of a product plus its bias, with a way back of our own where a GPU is trained: one pass over memory, not two."""

from typing import Any

import torch
from torch import Tensor

from .activations import activate

GELUS = ("gelu", "gelu-tanh")


class _BiasedGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, product: Tensor, bias: Tensor, name: str) -> Tensor:
        ctx.save_for_backward(product, bias)
        ctx.name = name
        return activate(name, product.float() + bias).to(product.dtype)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        product, bias = ctx.saved_tensors
        flat = (upstream[0].reshape(-1, product.shape[-1]), product.reshape(-1, product.shape[-1]))
        gradient, sums = torch.ops.clearhead.gelu_backward(*flat, bias, ctx.name == "gelu-tanh")
        return gradient.view_as(product), sums.sum(0).to(bias.dtype), None


def biased_gelu(product: Tensor, bias: Tensor, name: str) -> Tensor:
    """GELU(product + bias), by its exact formula ("gelu") or by tanh's; `has_kernel("gelu_kernel")` must be true."""
    return _BiasedGelu.apply(product, bias, name)  # pyright: ignore[reportReturnType]
