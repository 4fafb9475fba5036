"""Layer norm (Ba et al. 2016) and root-mean-square norm (Zhang and Sennrich 2019), tapped."""

import torch
from torch import Tensor, nn

from ..trace import tap


class LayerNorm(nn.LayerNorm):
    def forward(self, input: Tensor) -> Tensor:
        return tap("normed", super().forward(input))


class RMSNorm(nn.Module):
    """x / rms(x) * weight: no mean is taken off and no bias is added (T5). The mean square is taken in fp32."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.empty(width)), eps

    def forward(self, x: Tensor) -> Tensor:
        scaled = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + self.eps)
        return tap("normed", self.weight * scaled.to(x.dtype))
