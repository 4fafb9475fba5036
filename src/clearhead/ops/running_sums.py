"""Sums of one more vector each, every one of them a tensor of its own.

As rows of one tensor the compiler would read them at an offset, and take whatever reads them for something it can't go
through in one piece: a norm that adds one took three times as long.
"""

import torch
from torch import Tensor


@torch.library.custom_op("clearhead::running_sums", mutates_args=())
def running_sums(vectors: list[Tensor]) -> list[Tensor]:
    """The first, the first two, ... of some vectors (width,), added up in float32."""
    sums = torch.stack(vectors).float().cumsum(0)
    own = [torch.empty_like(row) for row in sums]
    torch._foreach_copy_(own, list(sums))  # pyright: ignore[reportPrivateImportUsage]
    return own


@running_sums.register_fake
def _(vectors: list[Tensor]) -> list[Tensor]:
    return [torch.empty_like(vector, dtype=torch.float32) for vector in vectors]
