"""A head's product and the loss of its logits as one step, in which logits turn into their slopes where they lie.

The logits are by far the largest tensor of a GPT-2 step, 3.3 of 14 GB. Apart, the loss reads them, and the way back
reads them again and writes as many slopes. Here one kernel (ops/token_losses.py) does all of that at once, on the way
forward: what is kept for the way back are the slopes. How much the loss itself counts is one number, known only
then, and multiplied onto the small products. A compiler sees one operator that changes none of its inputs.

The product on the way forward may be in 8 bits (ops/float8.py); those on the way back are not. Rows that were read
twice and should agree (consistency.py) have a kernel of their own (ops/agreeing_losses.py).
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..layers import embeddings
from ..ops.float8 import float8_linear

Product = tuple[Tensor, Tensor, Tensor | None]  # hidden states (N,width), the table (vocab,width), its bias (vocab,)


def vocabulary_loss(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    weights: Tensor | None,
    smoothing: float,
    float8: bool = False,
) -> Tensor:
    """hidden (N,width), weight (vocab,width), bias (vocab,), targets and weights (N,) -> the sum of losses, in fp32.

    `has_kernel("token_losses")` must be true.
    """
    rows, hidden = len(weight) + embeddings.missing_rows(weight), embeddings.to_working_type(hidden)
    return _product_and_loss(hidden, weight, bias, targets, weights, smoothing, 0.0, rows, float8)[0]


def agreeing_vocabulary_loss(
    product: Product, targets: Tensor, weights: Tensor | None, smoothing: float, consistency: float
) -> tuple[Tensor, Tensor]:
    """The same for hidden (2N,width) of rows that were read twice; beside it how far the two are from each other.

    `has_kernel("agreeing_losses")` must be true.
    """
    hidden, weight, bias = product
    rows, hidden = len(weight) + embeddings.missing_rows(weight), embeddings.to_working_type(hidden)
    return _product_and_loss(hidden, weight, bias, targets, weights, smoothing, consistency, rows, False)[:2]


@torch.library.custom_op("clearhead::vocabulary_loss", mutates_args=())
def _product_and_loss(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    weights: Tensor | None,
    smoothing: float,
    consistency: float,
    rows: int,
    float8: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The sum of losses; how far rows that were read twice are apart, nothing where `consistency` is 0; the slopes of
    the logits (N,rows); the table that they were made with (rows,width).

    The last two are padded with rows of zeros, and have the type of the hidden states.
    """
    table, product = _padded(weight, rows, hidden.dtype), float8_linear if float8 else F.linear
    logits = product(hidden, table, None if bias is None else _padded(bias, rows, hidden.dtype))
    if not consistency:
        from ..ops.token_losses import losses_and_slopes  # not everybody has Triton

        losses = losses_and_slopes(logits, targets, weights, smoothing, len(weight))
        return losses.sum(), losses.new_empty(0), logits, table
    from ..ops.agreeing_losses import agreeing_losses

    losses, apart = agreeing_losses(logits, targets, weights, smoothing, consistency, len(weight))
    return losses.sum(), apart.sum(), logits, table


def _padded(weight: Tensor, rows: int, dtype: torch.dtype) -> Tensor:
    """A copy with zeros behind it, cast on the way: the weight is read once."""
    padded = weight.new_empty(rows, *weight.shape[1:], dtype=dtype)
    padded[: len(weight)] = weight
    padded[len(weight) :] = 0.0
    return padded


@_product_and_loss.register_fake
def _(hidden: Tensor, weight: Tensor, bias: Any, targets: Tensor, weights: Any, smoothing: float, *how: Any) -> Any:
    consistency, rows, _ = how
    slopes, table = hidden.new_empty(hidden.shape[0], rows), hidden.new_empty(rows, hidden.shape[1])
    loss = hidden.new_empty((), dtype=torch.float32)
    return loss, loss.new_empty(() if consistency else 0), slopes, table


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor, Tensor]) -> None:
    _, apart, slopes, table = output
    ctx.mark_non_differentiable(apart, slopes, table)
    ctx.set_materialize_grads(False)  # no zeros as large as the slopes
    ctx.save_for_backward(slopes, table, inputs[0])
    ctx.words, ctx.dtype = len(inputs[1]), inputs[1].dtype


def _backward(ctx: Any, counts: Tensor, *_: None) -> tuple[Tensor | None, ...]:
    """The loss counts this much: a number, for which no slope is touched again. Padding gets no gradient."""
    slopes, table, hidden = ctx.saved_tensors
    for_hidden, for_weight, for_bias, *others = ctx.needs_input_grad
    return (
        slopes @ table * counts if for_hidden else None,
        (slopes.T @ hidden)[: ctx.words].to(ctx.dtype) * counts if for_weight else None,
        slopes.sum(0, dtype=torch.float32)[: ctx.words].to(ctx.dtype) * counts if for_bias else None,
        *(None for _ in others),
    )


_product_and_loss.register_autograd(_backward, setup_context=_keep)
