"""Drop path, or stochastic depth (Huang et al. 2016): in training a layer is skipped now and then, row by row.

What stays is scaled by 1 / (1 - rate), so that the mean is what it is without. It costs nothing when it is off.
"""

from torch import Tensor


def dropped_rows(change: Tensor, rate: float, training: bool) -> Tensor:
    """change (B, ...): what a layer would add. Each of the B rows is zero with probability `rate`."""
    if not training or rate == 0:
        return change
    keep = 1 - rate
    kept = change.new_empty(change.shape[0], *[1] * (change.ndim - 1)).bernoulli_(keep)
    return change * kept.div_(keep)
