"""Layer norm (Ba et al. 2016) and root-mean-square norm (Zhang and Sennrich 2019), tapped."""

import torch
from torch import Tensor, nn

from ..trace import tap


class LayerNorm(nn.LayerNorm):
    def forward(self, input: Tensor) -> Tensor:
        return tap("normed", super().forward(input))


class RMSNorm(nn.Module):
    """x / rms(x) * weight: no mean is taken off, no bias is added (T5). The mean square is in fp32 at least."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.empty(width)), eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return tap("normed", self.weight * scaled.to(x.dtype))
