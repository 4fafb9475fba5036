"""Modules that accompany a model while it learns. What is saved is the plain model, without them."""

from typing import ClassVar, TypeVar

from torch import nn


class Companion(nn.Module):
    """`name`: what the model calls it. It moves, learns and is stored with the model's state like any part of it."""

    name: ClassVar[str]


C = TypeVar("C", bound=Companion)


def accompany(model: nn.Module, companion: Companion) -> None:
    model.add_module(companion.name, companion)


def companion(model: nn.Module, kind: type[C]) -> C | None:
    """The one of this kind, if there is one."""
    return next((child for child in model.children() if isinstance(child, kind)), None)


def accompanied(model: nn.Module) -> bool:
    return companion(model, Companion) is not None


def leave(model: nn.Module) -> None:
    """All companions go, in place."""
    for child in [child for child in model.children() if isinstance(child, Companion)]:
        delattr(model, child.name)
