"""Sums of one more vector each, every one of them a tensor of its own.

As rows of one tensor they would be read at an offset. By its code torch's compiler (2.11) then reads the rows of a norm
that adds one twice; on an H200 such norms took three times what their memory needs (docs/LOG.md).
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
