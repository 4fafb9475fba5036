"""stream += x W^T where the stream lies: a GPU's product can begin with what is in its output's memory."""

import torch
from torch import Tensor


@torch.library.custom_op("clearhead::add_product", mutates_args=("stream",))
def add_product(stream: Tensor, x: Tensor, weight: Tensor) -> None:
    """stream (rows,N), x (rows,K), weight (N,K).

    An operator of our own, because the compiler would give torch's `addmm` another output and copy the stream there.
    """
    stream.addmm_(x, weight.T)


@add_product.register_fake
def _(stream: Tensor, x: Tensor, weight: Tensor) -> None:
    return None
