"""Masks: bool tensors, True where a query may look. Built here, applied in `attention`."""

import torch
from torch import Tensor


def padding(lengths: Tensor, size: int) -> Tensor:
    """Row lengths (B,) -> (B,1,1,size): keys beyond a row's length are hidden from all its queries and heads."""
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None, None, :]


def band(queries: int, keys: int, causal: bool, window: int | None, device: torch.device | str = "cpu") -> Tensor:
    """(queries, keys): the look-ahead mask, a local window, or both. The last query stands at the last key."""
    position_L1 = torch.arange(keys - queries, keys, device=device)[:, None]
    ahead_LM = torch.arange(keys, device=device) - position_L1
    allowed = ahead_LM <= 0 if causal else torch.ones_like(ahead_LM, dtype=torch.bool)
    return allowed if window is None else allowed & (ahead_LM.abs() < window)


def causal(size: int, device: torch.device | str = "cpu") -> Tensor:
    """The decks' look-ahead mask, (size, size)."""
    return band(size, size, True, None, device)
