"""A product in 8 bits: tensor cores from 2022 on multiply them about twice as fast as bf16, and keep sums in fp32.

A number in E4M3 has four significant bits and reaches 448: each factor is divided by one scale of its own, so that its
largest number becomes that. What is rounded so is 3% off on the mean; a sum of hundreds of such terms is less.
"""

# pyright: reportPrivateImportUsage=false

import torch
from torch import Tensor

E4M3 = torch.float8_e4m3fn
LARGEST = torch.finfo(E4M3).max


def can_multiply(device: torch.device) -> bool:
    """Whether a GPU has products in 8 bits. A CPU computes them too, if slowly: for tests."""
    return device.type == "cpu" or torch.cuda.get_device_capability(device) >= (8, 9)


def float8_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (N,in), weight (out,in), bias (out,) -> x weight^T + bias (N,out), in x's type: bf16. No gradients.

    A GPU wants both widths to be multiples of 16.
    """
    (left, left_scale), (right, right_scale) = rounded(x), rounded(weight)
    return torch._scaled_mm(
        left, right.T, scale_a=left_scale, scale_b=right_scale, bias=bias, out_dtype=x.dtype, use_fast_accum=True
    )


def rounded(x: Tensor) -> tuple[Tensor, Tensor]:
    """E4M3, and what it is to be multiplied by: the product is x, but for rounding. Of zeros it is zeros."""
    largest = torch.linalg.vector_norm(x, float("inf"), dtype=torch.float32)
    scale = (largest / LARGEST).clamp(min=torch.finfo(torch.float32).tiny).to(x.dtype)
    return (x / scale).to(E4M3), scale.float()
